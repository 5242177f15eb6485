//! `payonce merchant`

use super::ConfigFile;
use crate::database;
use crate::failure::Failure;
use crate::output::say;
use crate::table::{second, table};
use clap::Subcommand;
use serde_json::{Value, json};
use shared::merchant::{self, ApiKey, Credential, Merchant, MerchantError, Routing};

/// Make merchants, make and revoke their API keys, and route their payments
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a merchant, and show its first API key, once
    Create {
        /// Its name, unique
        name: String,
    },
    /// List all merchants
    List,
    /// List a merchant's API keys, or make one more
    Keys {
        /// The merchant's name
        name: String,
        /// Make one more key and show it, once; the others stay valid, so that a merchant can change over
        #[arg(long)]
        new: bool,
    },
    /// Show which acquirers a merchant's payments go to, or say so
    Route {
        /// The merchant's name
        name: String,
        /// The acquirer of payments that name none
        #[arg(long, value_name = "ACQUIRER")]
        default: Option<String>,
        /// Leave payments that name none to the service's default_acquirer
        #[arg(long, conflicts_with = "default")]
        no_default: bool,
        /// An acquirer that the merchant may use, and no other; may be repeated
        #[arg(long, value_name = "ACQUIRER")]
        allow: Vec<String>,
        /// Let the merchant use every acquirer
        #[arg(long, conflicts_with = "allow")]
        allow_all: bool,
    },
    /// Revoke an API key: it is refused from the next request on
    Revoke {
        /// The merchant's name
        name: String,
        /// The key's id, or its readable beginning, as `keys` lists them
        key: String,
    },
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.config.load()?;
    let pool = database::open(&config, 1).await?;
    let text = match args.action {
        Action::Create { name } => {
            let (merchant, credential) = merchant::create(&pool, &name).await?;
            shown_once(&merchant, &credential, args.json)
        }
        Action::List => merchants(&merchant::list(&pool).await?, args.json),
        Action::Keys { name, new } => {
            let merchant = merchant::named(&pool, &name).await?;
            match new {
                true => shown_once(&merchant, &merchant::add_key(&pool, merchant.id).await?, args.json),
                false => keys(&merchant::keys(&pool, merchant.id).await?, args.json),
            }
        }
        Action::Route { name, default, no_default, allow, allow_all } => {
            let unknown = allow.iter().chain(&default).find(|acquirer| !config.acquirers.contains_key(*acquirer));
            if let Some(acquirer) = unknown {
                return Err(MerchantError::NoAcquirer(acquirer.clone()).into());
            }
            let merchant = merchant::named(&pool, &name).await?;
            let before = merchant::routing(&pool, merchant.id).await?;
            let routing = Routing {
                default_acquirer: if no_default { None } else { default.or(before.default_acquirer.clone()) },
                acquirers: match (allow_all, allow.is_empty()) {
                    (true, _) => None,
                    (false, true) => before.acquirers.clone(),
                    (false, false) => Some(allow),
                },
            };
            if routing != before {
                merchant::route(&pool, merchant.id, &routing).await?;
            }
            routed(&merchant, &routing, &config.default_acquirer, args.json)
        }
        Action::Revoke { name, key } => {
            let merchant = merchant::named(&pool, &name).await?;
            merchant::revoke(&pool, merchant.id, &key).await?;
            revoked(&merchant, &key, args.json)
        }
    };
    say(text);
    Ok(())
}

fn shown_once(merchant: &Merchant, credential: &Credential, json: bool) -> String {
    let (id, name, key) = (merchant.id, &merchant.name, credential.reveal());
    if json {
        return json!({"merchant_id": id, "name": name, "api_key": key}).to_string();
    }
    format!("merchant  {name} ({id})\nAPI key   {key}\n\nThe key is shown this once: only its hash is kept.")
}

fn merchants(merchants: &[Merchant], json: bool) -> String {
    if json {
        let one = |m: &Merchant| json!({"id": m.id, "name": m.name, "created_at": second(m.created_at)});
        return Value::from_iter(merchants.iter().map(one)).to_string();
    }
    let row = |m: &Merchant| [m.name.clone(), m.id.to_string(), second(m.created_at)];
    table(["NAME", "ID", "CREATED"], &merchants.iter().map(row).collect::<Vec<_>>())
}

fn keys(keys: &[ApiKey], json: bool) -> String {
    if json {
        let one = |k: &ApiKey| {
            let (created, revoked) = (second(k.created_at), k.revoked_at.map(second));
            json!({"id": k.id, "prefix": k.prefix, "created_at": created, "revoked_at": revoked})
        };
        return Value::from_iter(keys.iter().map(one)).to_string();
    }
    let row = |k: &ApiKey| {
        let state = k.revoked_at.map_or_else(|| "accepted".to_owned(), |at| format!("revoked {}", second(at)));
        [format!("{}…", k.prefix), k.id.to_string(), second(k.created_at), state]
    };
    table(["BEGINS WITH", "ID", "CREATED", "STATE"], &keys.iter().map(row).collect::<Vec<_>>())
}

fn routed(merchant: &Merchant, routing: &Routing, service: &str, json: bool) -> String {
    if json {
        return json!({"merchant_id": merchant.id, "name": merchant.name,
            "default_acquirer": routing.default_acquirer, "acquirers": routing.acquirers})
        .to_string();
    }
    let default = match (&routing.default_acquirer, routing.default_of(service)) {
        (Some(own), _) => own.clone(),
        (None, Some(service)) => format!("{service} (the service's default)"),
        (None, None) => "none: each payment has to name its acquirer".to_owned(),
    };
    let allowed = routing.acquirers.as_ref().map_or_else(|| "all".to_owned(), |all| all.join(", "));
    format!("merchant  {} ({})\ndefault   {default}\nmay use   {allowed}", merchant.name, merchant.id)
}

fn revoked(merchant: &Merchant, key: &str, json: bool) -> String {
    if json {
        return json!({"merchant_id": merchant.id, "revoked": key}).to_string();
    }
    format!("revoked: requests with this key of {} are refused from now on", merchant.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    fn key(revoked_at: Option<OffsetDateTime>) -> ApiKey {
        let created_at = OffsetDateTime::UNIX_EPOCH;
        ApiKey { id: Uuid::nil(), prefix: "payonce_sk_abcdef".to_owned(), created_at, revoked_at }
    }

    #[test]
    fn a_list_of_keys_tells_which_are_accepted() {
        let text = keys(&[key(None), key(Some(OffsetDateTime::UNIX_EPOCH))], false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("payonce_sk_abcdef…") && lines[1].ends_with("accepted"), "{text}");
        assert!(lines[2].ends_with("revoked 1970-01-01T00:00:00Z"), "{text}");
    }

    #[test]
    fn a_list_for_programs_is_json() {
        let list: Value = serde_json::from_str(&keys(&[key(None)], true)).unwrap();
        assert_eq!((&list[0]["prefix"], &list[0]["revoked_at"]), (&json!("payonce_sk_abcdef"), &Value::Null));
        assert_eq!(keys(&[], true), "[]");
    }
}
