//! `payonce sandbox methods`

use crate::output::say;
use crate::table::table;
use sandbox::acquirer::Method;

pub fn list() {
    let row = |method: &Method| [method.id().to_owned(), method.meaning().to_owned()];
    say(table(["PAYMENT METHOD", "WHAT IT DOES"], &Method::ALL.iter().map(row).collect::<Vec<_>>()));
}
