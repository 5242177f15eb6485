//! Blows and payments go forward together, so that the last blow falls while there is still something to hit.

use tokio::sync::watch;
use tokio::time::Instant;

/// How many clients may be late before the blows wait for them.
const LATE: usize = 100;

/// How far both have come.
pub(super) struct Pace {
    began: Instant,
    payments: usize,
    blows: usize,
    /// So many clients may begin.
    due: watch::Sender<usize>,
    /// So many have.
    begun: watch::Sender<usize>,
}

impl Pace {
    /// At the start.
    pub fn new(payments: usize, blows: usize) -> Self {
        Self { began: Instant::now(), payments, blows, due: watch::Sender::new(0), begun: watch::Sender::new(0) }
    }

    /// Waits until the `number`-th client (from 0) may begin, and notes that it does.
    pub async fn client(&self, number: usize) {
        let mut due = self.due.subscribe();
        due.wait_for(|due| *due > number).await.expect("the sender lives as long as this");
        self.begun.send_replace(number + 1);
    }

    /// The `number`-th blow (from 0) falls: its share of the clients may begin, once those before are not too late.
    pub async fn blow(&self, number: usize) {
        let share = self.payments * (number + 1) / self.blows;
        let mut begun = self.begun.subscribe();
        let before = self.payments * number / self.blows;
        begun.wait_for(|begun| *begun + LATE >= before).await.expect("the sender lives as long as this");
        self.due.send_replace(share);
        if number.is_multiple_of(self.blows.div_ceil(10)) {
            let (second, nth) = (self.began.elapsed().as_secs(), number + 1);
            eprintln!("chaos: {second} s, blow {nth} of {}, {before} of {} payments", self.blows, self.payments);
        }
    }
}
