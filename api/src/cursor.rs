//! Cursors: opaque to clients, short, and checked when they come back.

use shared::outbox;
use uuid::Uuid;

/// The cursor after the last payment of a page.
#[must_use]
pub fn of_payment(last: Uuid) -> String {
    format!("p_{}", last.simple())
}

/// Reads a payments cursor.
#[must_use]
pub fn to_payment(cursor: &str) -> Option<Uuid> {
    id(cursor.strip_prefix("p_")?)
}

/// The cursor after the last event of a page.
#[must_use]
pub fn of_event(last: &outbox::Cursor) -> String {
    format!("e_{:x}_{}", last.tx, last.id.simple())
}

/// Reads an events cursor.
#[must_use]
pub fn to_event(cursor: &str) -> Option<outbox::Cursor> {
    let (tx, last) = cursor.strip_prefix("e_")?.split_once('_')?;
    let is_hex = tx.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(outbox::Cursor { tx: u64::from_str_radix(tx, 16).ok().filter(|_| is_hex)?, id: id(last)? })
}

fn id(digits: &str) -> Option<Uuid> {
    (digits.len() == 32).then(|| Uuid::try_parse(digits).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_went() {
        let id = Uuid::from_u128(0x0199_aaaa_bbbb_7ccc_8ddd_eeee_ffff_0001);
        assert_eq!(to_payment(&of_payment(id)), Some(id));
        let event = outbox::Cursor { tx: u64::MAX, id };
        assert_eq!(to_event(&of_event(&event)), Some(event));
    }

    #[test]
    fn what_was_never_a_cursor_is_refused() {
        let id = "0199aaaabbbb7ccc8dddeeeeffff0001";
        for cursor in ["", "p_", "p_x", id, &format!("e_1_{id}"), &format!("p_{id}0"), &format!("p_é{id}")] {
            assert_eq!(to_payment(cursor), None, "{cursor:?}");
        }
        let overflow = format!("e_10000000000000000_{id}");
        for cursor in
            ["", "e_", "e_1", "e_1_", &overflow, &format!("e_+1_{id}"), &format!("e__{id}"), &format!("p_{id}")]
        {
            assert_eq!(to_event(cursor), None, "{cursor:?}");
        }
    }
}
