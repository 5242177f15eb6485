use super::*;
use crate::problem::Place;

const GOOD: &str = r#""payment_intent_id":"order-1","amount_minor":1999,"currency":"EUR","payment_method_id":"pm_ok""#;

fn read(body: &str) -> Result<PaymentRequest, Vec<Fault>> {
    PaymentRequest::read(body.as_bytes())
}

/// The faults as `pointer code`.
fn faults(body: &str) -> Vec<String> {
    let place = |fault: &Fault| match &fault.at {
        Place::Pointer(pointer) => format!("{pointer} {}", fault.code),
        Place::Parameter(name) => panic!("{name} is no place in a body"),
    };
    read(body).expect_err(body).iter().map(place).collect()
}

/// The good body with one member written otherwise.
fn with(name: &str, value: &str) -> String {
    let members = GOOD.split(',').map(|member| match member.split_once(':') {
        Some((found, _)) if found.trim_matches('"') == name => format!("\"{name}\":{value}"),
        _ => member.to_owned(),
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[test]
fn a_good_body_is_read_whatever_its_order_and_spacing() {
    let plain = read(&format!("{{{GOOD}}}")).unwrap();
    assert_eq!(plain.amount_minor, 1999);
    let reversed: Vec<&str> = GOOD.rsplit(',').collect();
    assert_eq!(read(&format!("\n {{ {} }}\t", reversed.join(" ,\n"))).unwrap(), plain);
}

#[test]
fn the_bounds_themselves_are_inside() {
    for (name, value) in [
        ("amount_minor", "1".to_owned()),
        ("amount_minor", "9007199254740991".to_owned()),
        ("payment_intent_id", format!("{:?}", "i".repeat(64))),
        ("payment_method_id", format!("{:?}", "~".repeat(128))),
        ("currency", "\"JPY\"".to_owned()),
    ] {
        assert!(read(&with(name, &value)).is_ok(), "{name} {value}");
    }
}

#[test]
fn an_amount_is_an_integer_in_range_or_refused() {
    for (value, code) in [
        ("0", "out_of_range"),
        ("-1", "out_of_range"),
        ("-0", "out_of_range"),
        ("9007199254740992", "out_of_range"),
        ("99999999999999999999999", "out_of_range"),
        ("1.0", "not_an_integer"),
        ("19.99", "not_an_integer"),
        ("1e2", "not_an_integer"),
        ("\"1999\"", "wrong_type"),
        ("null", "wrong_type"),
        ("true", "wrong_type"),
        ("[1999]", "wrong_type"),
    ] {
        assert_eq!(faults(&with("amount_minor", value)), [format!("/amount_minor {code}")], "{value}");
    }
}

#[test]
fn a_text_is_visible_ascii_in_its_length_or_refused() {
    for name in ["payment_intent_id", "payment_method_id"] {
        for (value, code) in [
            ("\"\"".to_owned(), "invalid_length"),
            (format!("{:?}", "x".repeat(129)), "invalid_length"),
            ("\"a b\"".to_owned(), "invalid_characters"),
            ("\"é\"".to_owned(), "invalid_characters"),
            (r#""a\u0000""#.to_owned(), "invalid_characters"),
            (r#""\ud800""#.to_owned(), "invalid_characters"),
            ("7".to_owned(), "wrong_type"),
            ("null".to_owned(), "wrong_type"),
        ] {
            assert_eq!(faults(&with(name, &value)), [format!("/{name} {code}")], "{name} {value}");
        }
    }
    assert_eq!(
        faults(&with("payment_intent_id", &format!("{:?}", "i".repeat(65)))),
        ["/payment_intent_id invalid_length"]
    );
}

#[test]
fn a_currency_that_cannot_be_paid_in_is_refused() {
    for code in ["usd", "XXX", "XAU", "XTS", "DEM", "HRK", "ABC", "EURO", ""] {
        assert_eq!(faults(&with("currency", &format!("{code:?}"))), ["/currency unknown_currency"], "{code}");
    }
    assert_eq!(faults(&with("currency", "978")), ["/currency wrong_type"]);
}

#[test]
fn every_fault_is_found_at_once() {
    assert_eq!(
        faults(r#"{"amount_minor":"1","currency":"eur","currency":"EUR","card":"4111","metadata":{"a":1}}"#),
        [
            "/payment_intent_id missing",
            "/amount_minor wrong_type",
            "/currency duplicate_member",
            "/currency unknown_currency",
            "/payment_method_id missing",
            "/metadata/a wrong_type",
            "/card unknown_field",
        ]
    );
    assert_eq!(faults("{}").len(), 4);
}

#[test]
fn a_double_is_refused_even_when_both_say_the_same() {
    let doubled = format!("{{{GOOD},\"amount_minor\":1999}}");
    assert_eq!(faults(&doubled), ["/amount_minor duplicate_member"]);
    let disguised = format!("{{{GOOD},\"amount\\u005fminor\":1}}");
    assert_eq!(faults(&disguised), ["/amount_minor duplicate_member"]);
}

#[test]
fn a_body_that_is_no_object_has_one_fault() {
    assert_eq!(faults("[]"), [" wrong_type"]);
    assert_eq!(faults("null"), [" wrong_type"]);
    for body in ["", "{", "amount_minor=1", "{} {}", "\u{feff}{}"] {
        assert_eq!(faults(body), [" malformed_json"], "{body:?}");
    }
    assert_eq!(PaymentRequest::read(b"{\"a\":\"\xff\"}").unwrap_err()[0].code, "malformed_json");
}

#[test]
fn an_acquirer_is_a_text() {
    assert_eq!(read(&format!("{{{GOOD},\"acquirer\":\"default\"}}")).unwrap().acquirer.as_deref(), Some("default"));
    assert_eq!(faults(&format!("{{{GOOD},\"acquirer\":null}}")), ["/acquirer wrong_type"]);
}

#[test]
fn metadata_is_strings_by_name_within_bounds() {
    let metadata = |json: &str| format!("{{{GOOD},\"metadata\":{json}}}");
    let entry = |key: &str, value: &str| metadata(&format!("{{{key:?}:{value:?}}}"));
    assert!(read(&metadata("{}")).unwrap().into_parts().1.is_none());
    // Characters, not bytes.
    assert!(read(&entry(&"é".repeat(40), &"💳".repeat(500))).is_ok());
    assert_eq!(faults(&entry("k", &"v".repeat(501))), ["/metadata/k invalid_length"]);
    let long = "k".repeat(41);
    assert_eq!(faults(&entry(&long, "v")), [format!("/metadata/{long} invalid_length")]);
    assert_eq!(faults(&metadata(r#"{"a/b":"x\u0000"}"#)), ["/metadata/a~1b invalid_characters"]);
    assert_eq!(faults(&metadata(r#"{"a":"1","a":"1"}"#)), ["/metadata/a duplicate_member"]);
    assert_eq!(faults(&metadata("[]")), ["/metadata wrong_type"]);
    assert_eq!(faults(&metadata("null")), ["/metadata wrong_type"]);
    let many = |count: usize| (0..count).map(|n| format!("\"{n}\":\"\"")).collect::<Vec<_>>().join(",");
    assert!(read(&metadata(&format!("{{{}}}", many(20)))).is_ok());
    assert_eq!(faults(&metadata(&format!("{{{}}}", many(21)))), ["/metadata too_many"]);
}

#[test]
fn a_flood_of_faults_is_cut() {
    let unknown = (0..5000).map(|n| format!("\"x{n}\":1")).collect::<Vec<_>>().join(",");
    assert_eq!(faults(&format!("{{{unknown}}}")).len(), 50);
}
