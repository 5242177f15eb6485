//! `payonce operator`

use super::ConfigFile;
use crate::failure::Failure;
use crate::output::{say, second};
use crate::table::table;
use crate::{database, password};
use clap::Subcommand;
use serde_json::{Value, json};
use shared::credential::Credential;
use shared::operator::{self, LONGEST_DAYS, Operator, OperatorError, Role, Token};
use sqlx::PgPool;

/// Make operators, say what they may do, and draw and revoke their tokens
///
/// Viewers read; operators act and propose; approvers approve what another one proposed, and manage.
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
    /// Make an operator; its password is asked for, or read from the standard input
    Create {
        /// Its name, unique: decisions are signed with it
        name: String,
        /// What it may do: viewer, operator or approver
        #[arg(long)]
        role: Role,
    },
    /// List all operators
    List,
    /// Give an operator another role, from its next request on
    Role {
        /// The operator's name
        name: String,
        /// viewer, operator or approver
        role: Role,
    },
    /// Give an operator another password, asked for, or read from the standard input; its tokens stay
    Password {
        /// The operator's name
        name: String,
    },
    /// Stop an operator at once: its password and its tokens are refused
    Disable {
        /// The operator's name
        name: String,
    },
    /// Let a disabled operator in again, with the password and the tokens it had
    Enable {
        /// The operator's name
        name: String,
    },
    /// Draw a token for scripts of an operator, and show it, once
    Token {
        /// The operator's name
        name: String,
        /// How many days it lives, at most 365
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=i64::from(LONGEST_DAYS)))]
        days: u16,
    },
    /// List an operator's tokens
    Tokens {
        /// The operator's name
        name: String,
    },
    /// Revoke a token: it is refused from the next request on
    Revoke {
        /// The operator's name
        name: String,
        /// The token's id, or its readable beginning, as `tokens` lists them
        token: String,
    },
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.config.load()?;
    let pool = database::open(&config, 1).await?;
    let json = args.json;
    let text = match args.action {
        Action::Create { name, role } => operator_is(&create(&pool, &name, role).await?, "made", json),
        Action::List => operators(&operator::list(&pool).await.map_err(OperatorError::Db)?, json),
        Action::Role { name, role } => {
            operator_is(&operator::set_role(&pool, &name, role).await?, "given this role, from now on", json)
        }
        Action::Password { name } => operator_is(&change_password(&pool, &name).await?, "given a new password", json),
        Action::Disable { name } => {
            let what = "disabled: its password and its tokens are refused from now on";
            operator_is(&operator::disable(&pool, &name).await?, what, json)
        }
        Action::Enable { name } => {
            let what = "enabled, with the password and the tokens it had";
            operator_is(&operator::enable(&pool, &name).await?, what, json)
        }
        Action::Token { name, days } => shown_once(&operator::draw_token(&pool, &name, days).await?, json),
        Action::Tokens { name } => {
            let operator = operator::named(&pool, &name).await?;
            tokens(&operator::tokens(&pool, operator.id).await?, &operator, json)
        }
        Action::Revoke { name, token } => {
            let operator = operator::named(&pool, &name).await?;
            operator::revoke(&pool, operator.id, &token).await?;
            revoked(&operator, &token, json)
        }
    };
    say(text);
    Ok(())
}

/// Nobody thinks of a password for a name that cannot be had.
async fn create(pool: &PgPool, name: &str, role: Role) -> Result<Operator, Failure> {
    operator::check_name(name)?;
    match operator::named(pool, name).await {
        Ok(_) => return Err(OperatorError::NameTaken(name.to_owned()).into()),
        Err(OperatorError::NoOperator(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(operator::create(pool, name, role, &password::ask(name)?).await?)
}

async fn change_password(pool: &PgPool, name: &str) -> Result<Operator, Failure> {
    operator::named(pool, name).await?;
    Ok(operator::set_password(pool, name, &password::ask(name)?).await?)
}

fn operator_is(operator: &Operator, what: &str, json: bool) -> String {
    if json {
        return described(operator).to_string();
    }
    format!("operator  {} ({})\nrole      {}\n\nIt was {what}.", operator.name, operator.id, operator.role)
}

fn described(o: &Operator) -> Value {
    let (created, disabled) = (second(o.created_at), o.disabled_at.map(second));
    json!({"id": o.id, "name": o.name, "role": o.role, "created_at": created, "disabled_at": disabled})
}

fn operators(operators: &[Operator], json: bool) -> String {
    if json {
        return Value::from_iter(operators.iter().map(described)).to_string();
    }
    let row = |o: &Operator| {
        let state = o.disabled_at.map_or_else(|| "enabled".to_owned(), |at| format!("disabled {}", second(at)));
        [o.name.clone(), o.role.to_string(), o.id.to_string(), second(o.created_at), state]
    };
    table(["NAME", "ROLE", "ID", "CREATED", "STATE"], &operators.iter().map(row).collect::<Vec<_>>())
}

fn shown_once((operator, token, credential): &(Operator, Token, Credential), json: bool) -> String {
    let (secret, expires) = (credential.reveal(), second(token.expires_at));
    if json {
        return json!({"operator_id": operator.id, "name": operator.name, "role": operator.role,
            "token_id": token.id, "token": secret, "expires_at": expires})
        .to_string();
    }
    format!(
        "operator  {} ({}, {})\ntoken     {secret}\nexpires   {expires}\n\nThe token is shown this once: only its hash is kept.",
        operator.name, operator.role, operator.id
    )
}

/// What becomes of a request with this token.
fn state(token: &Token, operator: &Operator) -> String {
    match (token.revoked_at, token.expired, operator.disabled_at) {
        (Some(at), _, _) => format!("revoked {}", second(at)),
        (None, true, _) => "expired".to_owned(),
        (None, false, Some(_)) => "refused while the operator is disabled".to_owned(),
        (None, false, None) => "accepted".to_owned(),
    }
}

fn tokens(tokens: &[Token], operator: &Operator, json: bool) -> String {
    if json {
        let one = |t: &Token| {
            let (created, expires, revoked) = (second(t.created_at), second(t.expires_at), t.revoked_at.map(second));
            let accepted = t.revoked_at.is_none() && !t.expired && operator.disabled_at.is_none();
            json!({"id": t.id, "prefix": t.prefix, "created_at": created, "expires_at": expires,
                "revoked_at": revoked, "accepted": accepted})
        };
        return Value::from_iter(tokens.iter().map(one)).to_string();
    }
    let row = |t: &Token| {
        let (created, expires) = (second(t.created_at), second(t.expires_at));
        [format!("{}…", t.prefix), t.id.to_string(), created, expires, state(t, operator)]
    };
    table(["BEGINS WITH", "ID", "CREATED", "EXPIRES", "STATE"], &tokens.iter().map(row).collect::<Vec<_>>())
}

fn revoked(operator: &Operator, token: &str, json: bool) -> String {
    if json {
        return json!({"operator_id": operator.id, "revoked": token}).to_string();
    }
    format!("revoked: requests with this token of {} are refused from now on", operator.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    const EPOCH: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn ada(disabled_at: Option<OffsetDateTime>) -> Operator {
        Operator { id: Uuid::nil(), name: "ada".to_owned(), role: Role::Viewer, created_at: EPOCH, disabled_at }
    }

    fn token(revoked_at: Option<OffsetDateTime>, expired: bool) -> Token {
        let prefix = "payonce_op_abcdef".to_owned();
        Token { id: Uuid::nil(), prefix, created_at: EPOCH, expires_at: EPOCH, revoked_at, expired }
    }

    #[test]
    fn a_list_of_tokens_tells_which_are_accepted() {
        let all = [token(None, false), token(None, true), token(Some(EPOCH), true)];
        let text = tokens(&all, &ada(None), false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("payonce_op_abcdef…") && lines[1].ends_with("accepted"), "{text}");
        assert!(lines[2].ends_with("expired"), "{text}");
        assert!(lines[3].ends_with("revoked 1970-01-01T00:00:00Z"), "{text}");
        assert!(tokens(&all, &ada(Some(EPOCH)), false).contains("refused while the operator is disabled"));
    }

    #[test]
    fn a_list_for_programs_is_json() {
        let list: Value = serde_json::from_str(&tokens(&[token(None, false)], &ada(None), true)).unwrap();
        assert_eq!((&list[0]["prefix"], &list[0]["accepted"]), (&json!("payonce_op_abcdef"), &json!(true)));
        let list: Value = serde_json::from_str(&operators(&[ada(None)], true)).unwrap();
        assert_eq!((&list[0]["role"], &list[0]["disabled_at"]), (&json!("viewer"), &Value::Null));
        assert_eq!((operators(&[], true), tokens(&[], &ada(None), true)), ("[]".to_owned(), "[]".to_owned()));
    }
}
