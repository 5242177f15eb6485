//! What each acquirer promises, and when somebody last looked whether it does.

use super::Finding;
use crate::table::table as of_rows;
use crate::today::today;
use shared::acquirer::{Keys, Lookup};
use shared::config::{Acquirer, Config};
use time::Date;

/// One finding for each contract.
pub fn check(config: &Config) -> Vec<Finding> {
    let most = config.contract_max_age_days;
    config.acquirers.iter().map(|(name, profile)| verified(name, profile, today(), most)).collect()
}

fn verified(name: &str, profile: &Acquirer, today: Date, most: u16) -> Finding {
    let what = "contract";
    match (profile.unverified_days(today), profile.verified_on) {
        (Some(days), Some(day)) if days <= i64::from(most) => {
            Finding::good(what, format_args!("{name} was verified on {day}"))
        }
        (Some(days), Some(day)) => Finding::doubtful(
            what,
            format_args!(
                "{name} was verified on {day}, {days} days ago (contract_max_age_days = {most}): compare the profile \
                 with what the acquirer publishes, and set acquirers.{name}.verified_on"
            ),
        ),
        _ => Finding::doubtful(
            what,
            format_args!(
                "nobody has verified {name}: compare the profile with what the acquirer publishes, and set \
                 acquirers.{name}.verified_on"
            ),
        ),
    }
}

/// The running configuration's contracts as a table: a question in each line, an acquirer in each column.
pub fn table(config: &Config) -> String {
    let rows: Vec<[String; 9]> = config.acquirers.iter().map(|(name, profile)| row(name, profile)).collect();
    let heads =
        ["ACQUIRER", "KIND", "KEYS", "KEPT", "SCOPE", "A REPEAT BRINGS", "FOUND", "ABSENCE FINAL", "SENT AGAIN"];
    of_rows(heads, &rows)
}

fn row(name: &str, profile: &Acquirer) -> [String; 9] {
    let kept = match (profile.keys, profile.ttl_h) {
        (Keys::None, _) => "-".to_owned(),
        (Keys::Honoured, None) => "unknown".to_owned(),
        (Keys::Honoured, Some(ttl)) => format!("{ttl} h, less {} h", profile.safety_margin_h),
    };
    let (scope, replay) = match profile.keys {
        Keys::None => ("-", "-"),
        Keys::Honoured => (profile.scope.as_str(), profile.replay_semantics.as_str()),
    };
    let absence = match profile.lookup {
        Lookup::None => "-".to_owned(),
        Lookup::ByKey | Lookup::ByReference => format!("after {} s", profile.absence_final_after_ms.div_ceil(1000)),
    };
    [
        name.to_owned(),
        profile.kind.as_str().to_owned(),
        profile.keys.as_str().to_owned(),
        kept,
        scope.to_owned(),
        replay.to_owned(),
        profile.lookup.as_str().to_owned(),
        absence,
        profile.contract().resends().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Mark;
    use time::Month;

    fn on(day: u8) -> Date {
        Date::from_calendar_date(2026, Month::November, day).expect("a day")
    }

    fn profile(verified_on: Option<Date>) -> Acquirer {
        Acquirer { verified_on, ..Acquirer::at("http://127.0.0.1:1") }
    }

    #[test]
    fn a_contract_that_was_not_verified_for_long_is_worth_a_look() {
        assert_eq!(verified("bank", &profile(Some(on(1))), on(11), 10).mark, Mark::Good);
        let old = verified("bank", &profile(Some(on(1))), on(12), 10);
        assert!(old.mark == Mark::Doubtful && old.words.contains("11 days ago"), "{old}");
        let never = verified("bank", &profile(None), on(12), 10);
        assert!(never.mark == Mark::Doubtful && never.words.contains("nobody has verified bank"), "{never}");
    }

    #[test]
    fn the_table_says_of_each_acquirer_what_is_done_with_a_payment_in_doubt() {
        let mut config = Config::default();
        config.acquirers.insert("bank".to_owned(), profile(None));
        let without = Acquirer { keys: Keys::None, lookup: Lookup::ByReference, ..profile(None) };
        config.acquirers.insert("old".to_owned(), without);
        let text = table(&config);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("24 h, less 1 h") && lines[1].ends_with("at once, and when absent"), "{text}");
        assert!(lines[2].contains("by_reference") && lines[2].ends_with("never"), "{text}");
    }
}
