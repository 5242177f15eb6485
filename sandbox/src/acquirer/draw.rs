//! Chance without a clock: a draw depends on the seed and on what it is for, never on timing.

use super::method::Method;
use super::settings::Settings;

/// A number from [0, 1) for `(seed, name, salt)`.
pub(super) fn draw(seed: u64, name: &str, salt: u64) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mixed = mix(mix(hash).wrapping_add(salt));
    // The upper 53 bits are what an f64 between 0 and 1 can hold.
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// The finaliser of SplitMix64: spreads every input bit over the whole word.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a payment of this reference meets: its magic method, or a fault by chance. Nothing but the
/// seed and the rates decide, so that a report can explain afterwards what happened.
pub fn fault_of(settings: &Settings, payment_method_id: &str, reference: &str) -> Method {
    match Method::from_id(payment_method_id) {
        None | Some(Method::Ok) if !settings.faults.is_empty() => by_chance(reference, settings),
        None => Method::Ok,
        Some(method) => method,
    }
}

fn by_chance(reference: &str, settings: &Settings) -> Method {
    let mut left = draw(settings.seed, reference, 0);
    for (&method, &rate) in &settings.faults {
        if left < rate {
            return method;
        }
        left -= rate;
    }
    Method::Ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_spread_evenly_and_repeat_for_the_same_reference() {
        let draws: Vec<f64> = (0..10_000).map(|n| draw(7, &format!("ref-{n}"), 0)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((0.49..0.51).contains(&mean), "{mean}");
        assert_eq!(draws[17], draw(7, "ref-17", 0));
        assert_ne!(draws[17], draw(8, "ref-17", 0));
    }

    #[test]
    fn a_rate_hits_about_its_share_of_the_payments() {
        let mut settings = Settings::default();
        settings.faults.insert(Method::Unavailable, 0.3);
        let hits =
            (0..10_000).filter(|n| fault_of(&settings, "pm_ok", &format!("{n:032x}")) == Method::Unavailable).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
    }

    #[test]
    fn a_magic_method_is_never_overruled_by_chance() {
        let mut settings = Settings::default();
        settings.faults.insert(Method::Unavailable, 1.0);
        assert_eq!(fault_of(&settings, "pm_reset", "r"), Method::Reset);
        assert_eq!(fault_of(&settings, "card_1", "r"), Method::Unavailable);
    }
}
