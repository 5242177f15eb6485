//! What must hold, whatever struck. Every violation is a sentence.

mod answers;
mod money;

use super::books::Books;
use super::story::Story;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// The figures.
    pub figures: Figures,
    /// What must not be.
    pub violations: Vec<String>,
}

/// What came of a storm, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Payments on record.
    pub payments: usize,
    /// Answers by HTTP status and problem code.
    pub answers: BTreeMap<String, usize>,
    /// Requests without an answer.
    pub unheard: usize,
    /// Payments by what became of them: a final status, or `in review`.
    pub ended: BTreeMap<String, usize>,
    /// Open reviews by reason.
    pub reviews: BTreeMap<String, usize>,
    /// Calls that were written down, and whose owner died before it could say what came of them.
    pub takeovers: i64,
    /// Charges that moved money.
    pub charges: usize,
    /// Requests to charge, and look-ups.
    pub calls: (u64, u64),
    /// Intents for which money moved more than once.
    pub duplicates: usize,
    /// Final answers and states that were heard again, and compared.
    pub compared: usize,
}

/// Lays what clients heard, what we have on record and the acquirer's books side by side.
pub(super) fn judge(stories: &[Arc<Story>], books: &Books) -> Judgement {
    let mut judgement = Judgement::default();
    money::judge(books, &mut judgement);
    for story in stories {
        answers::judge(story, books, &mut judgement);
    }
    judgement
}

impl Judgement {
    /// Notes what must not be, when it is.
    fn forbid(&mut self, is: bool, sentence: impl FnOnce() -> String) {
        if is {
            self.violations.push(sentence());
        }
    }
}
