//! `payonce` as its users meet it: real processes, their output, their exit codes.

mod dev;
mod failures;
mod merchants;
mod migrate;
mod services;
mod support;
