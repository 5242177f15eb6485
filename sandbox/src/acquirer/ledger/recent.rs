//! What was approved in the last moments, for an acquirer that takes charges alike for one.

use std::collections::{HashSet, VecDeque};

/// Approved charges by what makes two alike; the old ones leave when it is asked.
#[derive(Default)]
pub(super) struct Recent {
    by_age: VecDeque<(u32, u64)>,
    alike: HashSet<u64>,
}

impl Recent {
    /// Whether a charge alike was noted less than `window_ms` ago.
    pub fn holds(&mut self, alike: u64, window_ms: u64, now_ms: u32) -> bool {
        while let Some(&(noted_at_ms, old)) = self.by_age.front()
            && u64::from(now_ms.saturating_sub(noted_at_ms)) >= window_ms
        {
            self.by_age.pop_front();
            self.alike.remove(&old);
        }
        self.alike.contains(&alike)
    }

    /// Notes a charge; there is none alike, or it would not have been approved.
    pub fn note(&mut self, alike: u64, now_ms: u32) {
        self.by_age.push_back((now_ms, alike));
        self.alike.insert(alike);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut recent = Recent::default();
        recent.note(1, 0);
        recent.note(2, 50);
        assert!(recent.holds(1, 100, 99));
        assert!(!recent.holds(1, 100, 100));
        assert!(recent.holds(2, 100, 100));
        recent.note(1, 100);
        assert!(recent.holds(1, 100, 199) && !recent.holds(2, 100, 199));
    }
}
