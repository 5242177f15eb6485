//! Operators: the people in front of whom a payment lies when a machine cannot decide.

mod password;
mod role;
mod token;

pub use password::{HashError, Password};
pub use role::{Action, Forbidden, Role, UnknownRole};
pub use token::{Caller, LONGEST_DAYS, Token, authenticate, draw_token, revoke, tokens};

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Its id.
    pub id: Uuid,
    /// Its name, unique.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// Since when it is refused; `None` while it is not.
    pub disabled_at: Option<OffsetDateTime>,
}

impl Operator {
    /// Whether it may do that. Every way to act (HTTP, command line, pages) asks here.
    ///
    /// # Errors
    /// [`Forbidden`] with the role that it takes.
    pub fn may(&self, action: Action) -> Result<(), Forbidden> {
        if self.role.may(action) { Ok(()) } else { Err(Forbidden { action, role: self.role }) }
    }
}

/// What can go wrong with operators and their tokens.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The name is taken.
    #[error(
        "an operator named {0:?} exists; choose another name (`payonce operator list` shows all, also disabled ones)"
    )]
    NameTaken(String),
    /// The name cannot be one.
    #[error("an operator's name has 1 to 100 characters, no control characters, and no spaces at its ends")]
    BadName,
    /// The password is too short.
    #[error("a password has at least {shortest} characters, this one has {0}; nothing was changed", shortest = Password::SHORTEST)]
    PasswordTooShort(usize),
    /// The password is none that a person could type again.
    #[error(
        "a password is one line of at most {longest} characters, without control characters; nothing was changed",
        longest = Password::LONGEST
    )]
    BadPassword,
    /// There is no such operator.
    #[error("there is no operator named {0:?}; `payonce operator list` shows all")]
    NoOperator(String),
    /// A disabled operator gets no token.
    #[error("the operator {0:?} is disabled; `payonce operator enable {0:?}` comes first")]
    Disabled(String),
    /// There is no such token, or it is revoked.
    #[error(
        "this operator has no unrevoked token whose id or prefix is {0:?}; `payonce operator tokens NAME` shows all"
    )]
    NoToken(String),
    /// The token would live too short or too long.
    #[error("a token lives 1 to {LONGEST_DAYS} days, not {0}")]
    BadLifetime(u16),
    /// A password could not be hashed, or a stored hash not be read.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The database.
    #[error("the database could not be asked: {0}")]
    Db(#[from] sqlx::Error),
}

/// Makes an operator.
///
/// # Errors
/// [`OperatorError::BadName`], [`OperatorError::NameTaken`].
pub async fn create(pool: &PgPool, name: &str, role: Role, password: &Password) -> Result<Operator, OperatorError> {
    check_name(name)?;
    let made = sqlx::query_as!(
        Operator,
        r#"INSERT INTO operators (id, name, role, password_hash) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
           RETURNING id, name, role AS "role: Role", created_at, disabled_at"#,
        Uuid::now_v7(),
        name,
        role.as_str(),
        password.hash().await?,
    );
    made.fetch_optional(pool).await?.ok_or_else(|| OperatorError::NameTaken(name.to_owned()))
}

/// Whether an operator may bear this name: decisions are told by it, so it looks like no other one by
/// characters that nobody sees.
///
/// # Errors
/// [`OperatorError::BadName`].
pub fn check_name(name: &str) -> Result<(), OperatorError> {
    let short = (1..=100).contains(&name.chars().count());
    if short && name.trim() == name && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(OperatorError::BadName)
    }
}

/// All operators, by name.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(pool: &PgPool) -> sqlx::Result<Vec<Operator>> {
    let rows = sqlx::query_as!(
        Operator,
        r#"SELECT id, name, role AS "role: Role", created_at, disabled_at FROM operators ORDER BY name"#
    );
    rows.fetch_all(pool).await
}

/// The operator of a name.
///
/// # Errors
/// [`OperatorError::NoOperator`].
pub async fn named(pool: &PgPool, name: &str) -> Result<Operator, OperatorError> {
    let row = sqlx::query_as!(
        Operator,
        r#"SELECT id, name, role AS "role: Role", created_at, disabled_at FROM operators WHERE name = $1"#,
        name,
    );
    there(row.fetch_optional(pool).await?, name)
}

/// Gives an operator another role, from its next request on.
///
/// # Errors
/// [`OperatorError::NoOperator`].
pub async fn set_role(pool: &PgPool, name: &str, role: Role) -> Result<Operator, OperatorError> {
    let row = sqlx::query_as!(
        Operator,
        r#"UPDATE operators SET role = $2 WHERE name = $1
           RETURNING id, name, role AS "role: Role", created_at, disabled_at"#,
        name,
        role.as_str(),
    );
    there(row.fetch_optional(pool).await?, name)
}

/// Gives an operator another password. Its tokens stay: they are told apart and revoked one by one.
///
/// # Errors
/// [`OperatorError::NoOperator`].
pub async fn set_password(pool: &PgPool, name: &str, password: &Password) -> Result<Operator, OperatorError> {
    let row = sqlx::query_as!(
        Operator,
        r#"UPDATE operators SET password_hash = $2 WHERE name = $1
           RETURNING id, name, role AS "role: Role", created_at, disabled_at"#,
        name,
        password.hash().await?,
    );
    there(row.fetch_optional(pool).await?, name)
}

/// Stops an operator at once: neither its password nor any of its tokens is accepted. Disabled before, it
/// stays so since then.
///
/// # Errors
/// [`OperatorError::NoOperator`].
pub async fn disable(pool: &PgPool, name: &str) -> Result<Operator, OperatorError> {
    let row = sqlx::query_as!(
        Operator,
        r#"UPDATE operators SET disabled_at = COALESCE(disabled_at, now()) WHERE name = $1
           RETURNING id, name, role AS "role: Role", created_at, disabled_at"#,
        name,
    );
    there(row.fetch_optional(pool).await?, name)
}

/// Lets an operator in again, with the password and the tokens it had.
///
/// # Errors
/// [`OperatorError::NoOperator`].
pub async fn enable(pool: &PgPool, name: &str) -> Result<Operator, OperatorError> {
    let row = sqlx::query_as!(
        Operator,
        r#"UPDATE operators SET disabled_at = NULL WHERE name = $1
           RETURNING id, name, role AS "role: Role", created_at, disabled_at"#,
        name,
    );
    there(row.fetch_optional(pool).await?, name)
}

fn there(row: Option<Operator>, name: &str) -> Result<Operator, OperatorError> {
    row.ok_or_else(|| OperatorError::NoOperator(name.to_owned()))
}

/// The operator of a name and a password; `None` when there is none, the password is another one, or the
/// operator is disabled. It takes as long for a name that nobody has, so that nobody learns which there are.
///
/// # Errors
/// When the database cannot be asked, or a stored hash cannot be read.
pub async fn verify(pool: &PgPool, name: &str, password: &Password) -> Result<Option<Operator>, OperatorError> {
    let row = sqlx::query!(
        r#"SELECT id, name, role AS "role: Role", created_at, disabled_at, password_hash
           FROM operators WHERE name = $1"#,
        name,
    );
    let Some(row) = row.fetch_optional(pool).await? else {
        password.hash().await?;
        return Ok(None);
    };
    let right = password.is(row.password_hash).await?;
    let (id, name, role, created_at, disabled_at) = (row.id, row.name, row.role, row.created_at, row.disabled_at);
    Ok(Some(Operator { id, name, role, created_at, disabled_at }).filter(|one| right && one.disabled_at.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_looks_like_no_other_one() {
        for name in ["ada", "Ada Lovelace", "ops@example.com", "Zoë", &"x".repeat(100)] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
        for name in ["", " ", " ada", "ada ", "a\nda", "a\0da", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
