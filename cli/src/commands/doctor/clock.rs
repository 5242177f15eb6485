//! Whether this machine and the database agree on the time.

use super::Finding;
use crate::database::{self, Server};
use shared::db::DbError;
use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};

/// Leases follow the database's clock alone; a difference only confuses whoever reads logs.
const WORTH_A_LOOK: Duration = Duration::SECOND;

/// What the server says about itself, and how far its clock is from ours.
pub async fn compare(connection: &mut PgConnection) -> Result<(Server, Finding), DbError> {
    let before = now();
    let server = database::ask(connection).await?;
    // Taken to be shown halfway between the question and the answer.
    let halfway = before + (now() - before) / 2;
    Ok((server, of_difference(server.clock - halfway)))
}

#[expect(clippy::disallowed_methods, reason = "to compare this machine's clock with the database's is the purpose")]
fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn of_difference(ahead: Duration) -> Finding {
    let (by, side) = (ahead.abs(), if ahead.is_negative() { "behind" } else { "ahead of" });
    if by <= WORTH_A_LOOK {
        return Finding::good("clock", "within a second of this machine's");
    }
    let seconds = by.as_seconds_f64();
    Finding::doubtful(
        "clock",
        format_args!(
            "the database's is {seconds:.1} s {side} this machine's; let both follow NTP. Leases go by the \
             database's alone and hold all the same, but times in logs will not match"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Mark;

    #[test]
    fn a_difference_above_a_second_is_worth_a_look() {
        assert_eq!(of_difference(Duration::milliseconds(-900)).mark, Mark::Good);
        let finding = of_difference(Duration::milliseconds(-3_200));
        assert_eq!(finding.mark, Mark::Doubtful);
        assert!(finding.words.contains("3.2 s behind"), "{finding}");
    }
}
