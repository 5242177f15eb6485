//! The contract as OpenAPI 3.1. Each route describes itself beside its handler; what holds for all of
//! them is added here.

use crate::problem::{Code, Problem, ProblemBody};
use crate::routes::{
    acquirer_webhooks, create_payment, docs, events, get_payment, get_timeline, health, list_payments, metrics, ops,
};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Type};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "payonce",
        description = "A payment service that never charges twice. For one payment intent money moves at most once; every payment ends in PAID, DECLINED or FAILED, or lies open in front of a person; nothing that was accepted is ever lost.",
    ),
    paths(
        create_payment::create_payment,
        list_payments::list_payments,
        get_payment::get_payment,
        get_timeline::get_timeline,
        events::list_events,
        acquirer_webhooks::take_webhook,
        ops::me::me,
        ops::operators::list_operators,
        health::healthz,
        health::readyz,
        metrics::metrics,
        docs::openapi_json,
        docs::page,
    ),
    components(schemas(ProblemBody)),
    modifiers(&EveryAnswer, &Credentials, &NothingLeftOut),
    tags(
        (name = "payments", description = "What a checkout needs"),
        (name = "events", description = "What became of payments"),
        (name = "operators", description = "For the people who decide what a machine cannot, and their scripts"),
        (name = "operations", description = "For whoever runs it"),
    ),
)]
struct Contract;

/// The document, as it is served.
pub static JSON: LazyLock<String> = LazyLock::new(|| {
    Contract::openapi().to_json().unwrap_or_else(|error| {
        tracing::error!(%error, "the OpenAPI document cannot be written");
        "{}".to_owned()
    })
});

/// Problem answers by status, each with its codes and their meaning.
pub fn problem_answers(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<String, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.meaning().status.as_str().to_owned()).or_default().push(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status, problem(&codes).into())).collect()
}

fn problem(codes: &[Code]) -> Response {
    let line = |code: &Code| format!("`{}`: {}", code.as_str(), code.meaning().title);
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new()
        .description(codes.iter().map(line).collect::<Vec<_>>().join("; "))
        .content(Problem::MEDIA_TYPE, content);
    let headers = codes.iter().flat_map(|code| headers_of(*code));
    headers.fold(response, |response, (name, what)| response.header(*name, header(what))).build()
}

/// The headers of a problem beside those of every answer.
const fn headers_of(code: Code) -> &'static [(&'static str, &'static str)] {
    const FOLLOW: (&str, &str) = ("Location", "The payment in `payment_id`");
    const REST: (&str, &str) = ("Retry-After", "Seconds");
    match code {
        Code::Unauthorized => &[("WWW-Authenticate", "`Bearer`")],
        Code::PaymentInProgress => &[FOLLOW, REST],
        Code::PaymentAttemptExists | Code::PaymentAlreadyPaid | Code::IdempotencyKeyReuse => &[FOLLOW],
        Code::RateLimited | Code::DatabaseUnavailable => &[REST],
        _ => &[],
    }
}

fn header(description: &str) -> utoipa::openapi::Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build()
}

/// What every answer bears.
struct EveryAnswer;

impl Modify for EveryAnswer {
    fn modify(&self, contract: &mut utoipa::openapi::OpenApi) {
        for path in contract.paths.paths.values_mut() {
            for operation in operations(path) {
                for response in operation.responses.responses.values_mut() {
                    if let RefOr::T(response) = response {
                        let about = header("Names this request in our logs");
                        response.headers.insert("X-Request-Id".to_owned(), about.into());
                    }
                }
            }
        }
    }
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut utoipa::openapi::path::Operation> {
    [&mut path.get, &mut path.post].into_iter().filter_map(Option::as_mut)
}

/// What has no value is `null` in these, never missing.
struct NothingLeftOut;

impl Modify for NothingLeftOut {
    fn modify(&self, contract: &mut utoipa::openapi::OpenApi) {
        let schemas = &mut contract.components.get_or_insert_default().schemas;
        for name in ["OperatorAccount", "Payment", "PaymentList", "Refusal"] {
            if let Some(RefOr::T(Schema::Object(object))) = schemas.get_mut(name) {
                object.required = object.properties.keys().cloned().collect();
            }
        }
    }
}

/// How callers prove who they are.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, contract: &mut utoipa::openapi::OpenApi) {
        let components = contract.components.get_or_insert_default();
        for (name, what) in [
            ("api_key", "An API key of the merchant, from `payonce merchant create`"),
            ("operator_token", "A token of an operator, from `payonce operator token`"),
        ] {
            let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(what)).build();
            components.add_security_scheme(name, SecurityScheme::Http(scheme));
        }
    }
}

/// Names the problems of a route, for its `#[utoipa::path]`.
macro_rules! problems {
    (pub $name:ident: $($code:ident),+ $(,)?) => {
        /// The problems that this route answers with.
        pub struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                $crate::openapi::problem_answers(&[$($crate::problem::Code::$code),+])
            }
        }
    };
}
pub(crate) use problems;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn contract() -> Value {
        serde_json::from_str(&JSON).unwrap()
    }

    #[test]
    fn it_is_openapi_3_1_and_describes_every_path() {
        let contract = contract();
        assert!(contract["openapi"].as_str().unwrap().starts_with("3.1"));
        let paths: Vec<&String> = contract["paths"].as_object().unwrap().keys().collect();
        let all = [
            "/docs",
            "/healthz",
            "/metrics",
            "/openapi.json",
            "/ops/api/v1/me",
            "/ops/api/v1/operators",
            "/readyz",
            "/v1/acquirers/{name}/webhooks",
            "/v1/events",
            "/v1/payments",
            "/v1/payments/{id}",
            "/v1/payments/{id}/timeline",
        ];
        assert_eq!(paths, all);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let contract = contract();
        let text = JSON.as_str();
        for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(contract.pointer(reference).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_code_of_a_v1_route_stands_in_the_document() {
        let v1 = contract()["paths"].to_string();
        for code in Code::ALL.iter().filter(|code| !matches!(code, Code::NotFound | Code::MethodNotAllowed)) {
            assert!(v1.contains(&format!("`{}`", code.as_str())), "{code:?}");
        }
    }

    #[test]
    fn every_answer_names_its_request() {
        for path in contract()["paths"].as_object().unwrap().values() {
            for operation in path.as_object().unwrap().values() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    assert!(response["headers"]["X-Request-Id"].is_object(), "{status} {response}");
                }
            }
        }
    }
}
