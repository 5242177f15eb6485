//! What the handlers share: the books, the settings and the clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::clock::Clock;
use super::ledger::Ledger;
use super::settings::Settings;
use super::webhooks::{self, Post};

/// The acquirer's state, shared by all of its connections.
pub(super) struct Desk {
    ledger: Mutex<Ledger>,
    settings: RwLock<Arc<Settings>>,
    pub clock: Clock,
    /// What carries the webhooks.
    pub post: Post,
}

impl Desk {
    pub fn new(settings: Settings) -> Desk {
        let clock = Clock::start();
        Desk {
            ledger: Mutex::new(Ledger::new(clock.started_unix_ms())),
            settings: RwLock::new(Arc::new(settings)),
            clock,
            post: webhooks::post(),
        }
    }

    /// The books. Never held across an await.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.read();
        settings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the settings by what `change` makes of them, unless it fails.
    pub fn change_settings<E>(
        &self,
        change: impl FnOnce(&Settings) -> Result<Settings, E>,
    ) -> Result<Arc<Settings>, E> {
        let settings = self.settings.write();
        let mut settings = settings.unwrap_or_else(PoisonError::into_inner);
        *settings = Arc::new(change(&settings)?);
        Ok(settings.clone())
    }
}
