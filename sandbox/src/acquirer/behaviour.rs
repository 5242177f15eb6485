//! What each [`Method`] books and how it answers.

use super::ledger::Status;
use super::method::Method;
use super::settings::Settings;

/// Delay before the charge of `pm_409_in_flight` is booked, in ms.
const IN_FLIGHT_MS: u64 = 300;
/// Delay before the charge of `pm_slow` is booked and answered, in ms.
const SLOW_MS: u64 = 2_000;

/// What enters the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Books {
    Nothing,
    One(Status),
    Two,
}

/// What goes back over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Charge,
    Withheld,
    Reset,
    ServerError,
    Unavailable,
    TooManyRequests,
    InUse,
    NotJson,
    CutShort,
    Html,
    Trickle,
    Redirect,
    Huge,
    Empty,
    Array,
}

/// What an execution was answered, as a client that waited would have heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub answer: Answer,
    /// As which the charge was shown.
    pub status: Status,
}

impl Told {
    /// What was lost or held up on its way had been answered well; only the acquirer's own words count.
    pub fn of(answer: Answer, status: Status) -> Told {
        let answer = match answer {
            Answer::Withheld | Answer::Reset | Answer::InUse | Answer::CutShort | Answer::Trickle => Answer::Charge,
            answer => answer,
        };
        Told { answer, status }
    }

    /// Whether its HTTP status was a 2xx.
    pub fn is_success(self) -> bool {
        self.answer != Answer::ServerError && matches!(self.status, Status::Approved | Status::Processing)
    }
}

/// One POST's course.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behaviour {
    pub books: Books,
    pub answer: Answer,
    /// From receipt to the booking, in ms; the connection may be long gone by then.
    pub book_after_ms: u64,
}

impl Behaviour {
    /// The course of a POST on which the method's fault acts.
    pub fn faulty(method: Method, settings: &Settings) -> Behaviour {
        Behaviour {
            books: books(method),
            answer: answer(method),
            book_after_ms: match method {
                Method::TimeoutAfterCharge => settings.book_after_ms,
                Method::InFlight => IN_FLIGHT_MS,
                Method::Slow => SLOW_MS,
                _ => 0,
            },
        }
    }

    /// The course of a repeat: the fault is over, what the method means for the charge stays.
    pub fn calm(method: Method) -> Behaviour {
        let books = match books(method) {
            Books::One(status) => Books::One(status),
            Books::Nothing | Books::Two => Books::One(Status::Approved),
        };
        // The 500 of a double charge is the stored answer: only a look-up shows the two.
        let answer = match method {
            Method::DoubleCharge => Answer::ServerError,
            _ => Answer::Charge,
        };
        Behaviour { books, answer, book_after_ms: 0 }
    }
}

/// How long a charge shows as `processing` after it was booked, in ms.
pub(super) fn processing_ms(method: Method, settings: &Settings) -> u64 {
    match method {
        Method::ProcessingThenOk => settings.processing_ms,
        _ => 0,
    }
}

fn books(method: Method) -> Books {
    match method {
        Method::Declined | Method::NulText => Books::One(Status::Declined),
        Method::Rejected => Books::One(Status::Rejected),
        Method::ProcessingForever => Books::One(Status::Processing),
        Method::DoubleCharge => Books::Two,
        Method::TimeoutBeforeCharge | Method::Unavailable | Method::TooManyRequests | Method::Redirect => {
            Books::Nothing
        }
        _ => Books::One(Status::Approved),
    }
}

fn answer(method: Method) -> Answer {
    match method {
        Method::TimeoutAfterCharge | Method::TimeoutBeforeCharge => Answer::Withheld,
        Method::Reset | Method::NotFoundThenOk => Answer::Reset,
        Method::ServerErrorAfterCharge | Method::DoubleCharge => Answer::ServerError,
        Method::Unavailable => Answer::Unavailable,
        Method::TooManyRequests => Answer::TooManyRequests,
        Method::InFlight => Answer::InUse,
        Method::Malformed => Answer::NotJson,
        Method::Truncated => Answer::CutShort,
        Method::Html => Answer::Html,
        Method::Trickle => Answer::Trickle,
        Method::Redirect => Answer::Redirect,
        Method::HugeBody => Answer::Huge,
        Method::EmptyBody => Answer::Empty,
        Method::ArrayBody => Answer::Array,
        Method::Ok
        | Method::Declined
        | Method::Rejected
        | Method::WrongAmount
        | Method::WrongCurrency
        | Method::WrongReference
        | Method::ProcessingThenOk
        | Method::ProcessingForever
        | Method::NulText
        | Method::Slow
        | Method::NewStatus => Answer::Charge,
    }
}
