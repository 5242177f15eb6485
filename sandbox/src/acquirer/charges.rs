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
use super::behaviour::{self, Answer, Behaviour, Books, Told};
use super::desk::Desk;
use super::draw::draw;
use super::ledger::{Booking, ChargeId, Ledger, Order, Posted, Status, Stored, Ticket};
use super::method::Method;
use super::order;
use super::refusal::Refusal;
use super::settings::Settings;
use super::webhooks;

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
        Posted::Fresh(ticket) => charge(desk, settings, asked, ticket).await,
        Posted::Replay(ticket, stored) => replay(&desk, &settings, &asked, ticket, stored).await,
        Posted::InFlight(ticket) => refuse(&desk, &settings.in_flight, ticket),
        Posted::Reused(ticket) => refuse(&desk, &settings.mismatch, ticket),
    }
}

fn refuse(desk: &Desk, refusal: &Refusal, ticket: Ticket) -> Response {
    let resource_id = desk.ledger().resource_id(ticket);
    answers::refused(refusal, &resource_id)
}

/// What the books do not keep of an order until it is booked.
#[derive(Clone, Copy)]
struct Asked {
    amount_minor: i64,
    currency: [u8; 3],
    method: Method,
    fingerprint: u64,
    alike: u64,
}

impl Asked {
    fn by(order: &Order) -> Asked {
        Asked {
            amount_minor: order.amount_minor,
            currency: order.currency,
            method: order.method,
            fingerprint: order.fingerprint,
            alike: order.alike,
        }
    }

    fn booking(&self, status: Status) -> Booking {
        Booking { amount_minor: self.amount_minor, currency: self.currency, method: self.method, status }
    }
}

/// A new charge.
async fn charge(desk: Arc<Desk>, settings: Arc<Settings>, asked: Asked, ticket: Ticket) -> Response {
    let behaviour = behaviour(asked.method, &settings, ticket);
    let after_ms = latency_ms(&settings, &asked, ticket) + behaviour.book_after_ms;
    let work = Work { desk: desk.clone(), settings: settings.clone(), asked, ticket, behaviour };
    let booked = if after_ms == 0 {
        Booked::Now(work.book())
    } else if behaviour.books == Books::Nothing {
        // Nothing is under way, so a repeat need not wait for the answer.
        let nothing = work.book();
        sleep(Duration::from_millis(after_ms)).await;
        Booked::Now(nothing)
    } else {
        Booked::Later(work.book_later(after_ms))
    };
    Reply { desk: &desk, settings: &settings, ticket, answer: behaviour.answer, repeats: None }.to(booked).await
}

/// The stored result, or the fault again where faults repeat.
async fn replay(desk: &Desk, settings: &Settings, asked: &Asked, ticket: Ticket, stored: Stored) -> Response {
    let booked_with = desk.ledger().method(stored.id).unwrap_or(asked.method);
    let latency_ms = latency_ms(settings, asked, ticket);
    if latency_ms > 0 {
        sleep(Duration::from_millis(latency_ms)).await;
    }
    let answer = match stored.told {
        Some(told) if !settings.faults_repeat => told.answer,
        _ => behaviour(booked_with, settings, ticket).answer,
    };
    let reply = Reply { desk, settings, ticket, answer, repeats: Some(stored) };
    reply.to(Booked::Now(Entered::One(stored.id))).await
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
    desk: Arc<Desk>,
    settings: Arc<Settings>,
    asked: Asked,
    ticket: Ticket,
    behaviour: Behaviour,
}

/// What an execution entered in the books.
#[derive(Clone, Copy)]
enum Entered {
    Nothing,
    /// Nothing either: it was taken for one that is in the books already.
    Duplicate,
    One(ChargeId),
    Two(ChargeId, ChargeId),
}

/// A booking made, or on its way in a task that no connection can take down with it.
enum Booked {
    Now(Entered),
    Later(JoinHandle<Entered>),
}

impl Work {
    fn book(self) -> Entered {
        let now_ms = self.desk.clock.now_ms();
        let mut ledger = self.desk.ledger();
        let entered = self.enter(&mut ledger, now_ms);
        ledger.conclude(self.ticket, self.told(entered));
        drop(ledger);
        self.announce(entered);
        entered
    }

    fn enter(&self, ledger: &mut Ledger, now_ms: u32) -> Entered {
        let status = match self.behaviour.books {
            Books::Nothing => return Entered::Nothing,
            Books::One(status) => status,
            Books::Two => Status::Approved,
        };
        if let Some(window_ms) = self.settings.duplicate_window_ms {
            if ledger.is_duplicate(self.asked.alike, window_ms, now_ms) {
                return Entered::Duplicate;
            }
            if status == Status::Approved {
                ledger.note_approved(self.asked.alike, now_ms);
            }
        }
        let mut book = || ledger.book(self.ticket, self.asked.booking(status), self.processing_ms(), now_ms);
        match (self.behaviour.books, book()) {
            (_, None) => Entered::Nothing,
            (Books::Two, Some(first)) => book().map_or(Entered::One(first), |second| Entered::Two(first, second)),
            (_, Some(id)) => Entered::One(id),
        }
    }

    fn processing_ms(&self) -> u64 {
        behaviour::processing_ms(self.asked.method, &self.settings)
    }

    fn told(&self, entered: Entered) -> Option<Told> {
        let status = match (entered, self.behaviour.books) {
            (Entered::Nothing | Entered::Duplicate, _) | (_, Books::Nothing) => return None,
            _ if self.processing_ms() > 0 => Status::Processing,
            (_, Books::One(status)) => status,
            (_, Books::Two) => Status::Approved,
        };
        Some(Told::of(self.behaviour.answer, status))
    }

    fn announce(&self, entered: Entered) {
        let ids = match entered {
            Entered::Nothing | Entered::Duplicate => [None, None],
            Entered::One(id) => [Some(id), None],
            Entered::Two(first, second) => [Some(first), Some(second)],
        };
        for id in ids.into_iter().flatten() {
            webhooks::announce(&self.desk, &self.settings, id, self.processing_ms());
        }
    }

    fn book_later(self, after_ms: u64) -> JoinHandle<Entered> {
        tokio::spawn(async move {
            sleep(Duration::from_millis(after_ms)).await;
            self.book()
        })
    }
}

impl Booked {
    async fn wait(self) -> Entered {
        match self {
            Booked::Now(entered) => entered,
            Booked::Later(task) => task.await.unwrap_or(Entered::Nothing),
        }
    }
}

/// An answer on its way.
struct Reply<'a> {
    desk: &'a Desk,
    settings: &'a Settings,
    ticket: Ticket,
    answer: Answer,
    /// What it repeats, if anything.
    repeats: Option<Stored>,
}

impl Reply<'_> {
    async fn to(self, booked: Booked) -> Response {
        match self.answer {
            Answer::InUse => return refuse(self.desk, &self.settings.in_flight, self.ticket),
            Answer::Withheld => sleep(Duration::from_millis(self.settings.hold_ms)).await,
            _ => {}
        }
        match booked.wait().await {
            Entered::Duplicate => answers::duplicate(),
            Entered::Nothing => answers::respond(self.answer, None, false),
            Entered::One(id) | Entered::Two(id, _) => self.about(id),
        }
    }

    fn about(&self, id: ChargeId) -> Response {
        let ledger = self.desk.ledger();
        let charge = match self.repeats.and_then(|stored| stored.told) {
            Some(told) => ledger.charge_as(id, told.status),
            None => ledger.charge(id, self.desk.clock.now_ms()),
        };
        drop(ledger);
        let shown_anew = self.repeats.is_some_and(|stored| stored.told.is_none());
        answers::respond(self.answer, charge, shown_anew)
    }
}
