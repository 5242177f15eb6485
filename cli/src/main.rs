//! payonce
fn main() {}
