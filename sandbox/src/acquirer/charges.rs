//! `POST /charges`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::answers;
use super::behaviour::{self, Answer, Behaviour, Books};
use super::desk::Desk;
use super::draw::draw;
use super::ledger::{Booking, ChargeId, Order, Posted, Status, Ticket};
use super::method::Method;
use super::order;
use super::settings::Settings;

/// Takes an order: books what its method says, and answers what its method says.
pub(super) async fn post(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> Response {
    let settings = desk.settings();
    let order = match order::read(&headers, &body, &settings) {
        Ok(order) => order,
        Err(unreadable) => return answers::unreadable(&unreadable),
    };
    let asked = Asked::by(&order);
    let posted = desk.ledger().post(order, &settings, desk.clock.now_ms());
    match posted {
        Posted::Fresh(ticket) => charge(desk, &settings, asked, ticket).await,
        Posted::Replay(ticket, id) => replay(desk, &settings, &asked, ticket, id).await,
        Posted::InFlight => answers::in_use(),
        Posted::Reused => answers::reused(),
    }
}

/// What the books do not keep of an order until it is booked.
struct Asked {
    amount_minor: i64,
    currency: [u8; 3],
    method: Method,
    fingerprint: u64,
}

impl Asked {
    fn by(order: &Order) -> Asked {
        Asked {
            amount_minor: order.amount_minor,
            currency: order.currency,
            method: order.method,
            fingerprint: order.fingerprint,
        }
    }

    fn booking(&self, status: Status) -> Booking {
        Booking { amount_minor: self.amount_minor, currency: self.currency, method: self.method, status }
    }
}

/// A new charge.
async fn charge(desk: Arc<Desk>, settings: &Settings, asked: Asked, ticket: Ticket) -> Response {
    let behaviour = behaviour(asked.method, settings, ticket);
    let latency_ms = latency_ms(settings, &asked, ticket);
    let after_ms = latency_ms + behaviour.book_after_ms;
    let work = Work {
        ticket,
        books: behaviour.books,
        booking: asked.booking(Status::Approved),
        processing_ms: behaviour::processing_ms(asked.method, settings),
    };
    let booked = if after_ms == 0 {
        Booked::Now(work.book(&desk))
    } else if behaviour.books == Books::Nothing {
        // Nothing is under way, so a repeat need not wait for the answer.
        work.book(&desk);
        sleep(Duration::from_millis(after_ms)).await;
        Booked::Now(None)
    } else {
        Booked::Later(work.book_later(desk.clone(), after_ms))
    };
    respond(&desk, settings, behaviour.answer, booked, false).await
}

/// The stored result, or the fault again where faults repeat.
async fn replay(desk: Arc<Desk>, settings: &Settings, asked: &Asked, ticket: Ticket, id: ChargeId) -> Response {
    let booked_with = desk.ledger().method(id).unwrap_or(asked.method);
    let latency_ms = latency_ms(settings, asked, ticket);
    if latency_ms > 0 {
        sleep(Duration::from_millis(latency_ms)).await;
    }
    let answer = behaviour(booked_with, settings, ticket).answer;
    respond(&desk, settings, answer, Booked::Now(Some(id)), true).await
}

fn behaviour(method: Method, settings: &Settings, ticket: Ticket) -> Behaviour {
    if ticket.earlier_posts == 0 || settings.faults_repeat {
        Behaviour::faulty(method, settings)
    } else {
        Behaviour::calm(method)
    }
}

fn latency_ms(settings: &Settings, asked: &Asked, ticket: Ticket) -> u64 {
    let salt = asked.fingerprint ^ u64::from(ticket.earlier_posts);
    settings.latency_ms.ms(draw(settings.seed, "post", salt))
}

/// A booking to be made.
struct Work {
    ticket: Ticket,
    books: Books,
    booking: Booking,
    processing_ms: u64,
}

/// A booking made, or on its way in a task that no connection can take down with it.
enum Booked {
    Now(Option<ChargeId>),
    Later(JoinHandle<Option<ChargeId>>),
}

impl Work {
    fn book(self, desk: &Desk) -> Option<ChargeId> {
        let now_ms = desk.clock.now_ms();
        let mut ledger = desk.ledger();
        let mut book = |status| {
            let booking = Booking { status, ..self.booking };
            ledger.book(self.ticket, booking, self.processing_ms, now_ms)
        };
        let id = match self.books {
            Books::Nothing => None,
            Books::One(status) => book(status),
            Books::Two => {
                let first = book(Status::Approved);
                book(Status::Approved);
                first
            }
        };
        ledger.conclude(self.ticket);
        id
    }

    fn book_later(self, desk: Arc<Desk>, after_ms: u64) -> JoinHandle<Option<ChargeId>> {
        tokio::spawn(async move {
            sleep(Duration::from_millis(after_ms)).await;
            self.book(&desk)
        })
    }
}

impl Booked {
    async fn wait(self) -> Option<ChargeId> {
        match self {
            Booked::Now(id) => id,
            Booked::Later(task) => task.await.ok().flatten(),
        }
    }
}

async fn respond(desk: &Desk, settings: &Settings, answer: Answer, booked: Booked, replayed: bool) -> Response {
    match answer {
        Answer::InUse => return answers::in_use(),
        Answer::Withheld => sleep(Duration::from_millis(settings.hold_ms)).await,
        _ => {}
    }
    let id = booked.wait().await;
    let charge = id.and_then(|id| desk.ledger().charge(id, desk.clock.now_ms()));
    answers::respond(answer, charge, replayed)
}
