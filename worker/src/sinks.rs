//! Where events go, beside the feed. Every sink takes one event at a time and says whether it has it;
//! consumers recognise a re-delivery by the event's id.

use shared::outbox::Event;

/// A sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// A log line.
    Log,
}

impl Sink {
    /// The sink of a configured name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (name == "log").then_some(Self::Log)
    }

    /// Brings an event to the sink.
    ///
    /// # Errors
    /// Why the sink does not have it, for people.
    #[expect(clippy::unused_async, reason = "the sinks to come are remote")]
    pub async fn deliver(self, event: &Event) -> Result<(), String> {
        match self {
            Self::Log => tracing::info!(
                event_id = %event.id, event_type = event.r#type, merchant_id = %event.merchant_id,
                payment_id = %event.payment_id, payment_intent_id = event.payment_intent_id, "event"
            ),
        }
        Ok(())
    }
}
