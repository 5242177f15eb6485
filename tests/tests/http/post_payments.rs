//! `POST /v1/payments`.

mod answers;
mod bad_bodies;
mod bad_keys;
mod order_of_checks;
mod other_keys;
mod other_requests;
mod outages;
mod races;
mod repeats;
