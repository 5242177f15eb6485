//! What an operator may do: the one table that says it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What an operator is trusted with. Each role may do all that the ones before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Acts, and proposes what takes two.
    Operator,
    /// Approves what others propose, and manages merchants and operators.
    Approver,
}

/// What there is to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read payments, reviews and dead letters.
    Read,
    /// Read who decided what.
    ReadAudit,
    /// Have the acquirer asked now.
    Ask,
    /// Send a charge again with its key.
    Resend,
    /// Bring an event to its sink again.
    Redeliver,
    /// Give a review to somebody.
    Assign,
    /// Comment on a review.
    Comment,
    /// Close a review in which nothing is left to decide.
    Resolve,
    /// Force a payment's state, or propose to where that takes two.
    Propose,
    /// Approve or reject what another operator proposed.
    Approve,
    /// Make merchants, and make and revoke their keys.
    ManageMerchants,
    /// See and manage operators.
    ManageOperators,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Approver];

    /// Whether it is enough for that. Architecture invariant: nothing else compares roles.
    #[must_use]
    pub fn may(self, action: Action) -> bool {
        self >= action.least_role()
    }

    /// The word that SQL, logs, the API and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
        }
    }
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 12] = [
        Self::Read,
        Self::ReadAudit,
        Self::Ask,
        Self::Resend,
        Self::Redeliver,
        Self::Assign,
        Self::Comment,
        Self::Resolve,
        Self::Propose,
        Self::Approve,
        Self::ManageMerchants,
        Self::ManageOperators,
    ];

    /// The least role that may do it. The audit is for viewers too: an auditor should need no role that acts.
    #[must_use]
    pub const fn least_role(self) -> Role {
        match self {
            Self::Read | Self::ReadAudit => Role::Viewer,
            Self::Ask
            | Self::Resend
            | Self::Redeliver
            | Self::Assign
            | Self::Comment
            | Self::Resolve
            | Self::Propose => Role::Operator,
            Self::Approve | Self::ManageMerchants | Self::ManageOperators => Role::Approver,
        }
    }

    /// What it is, after "may not".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Read => "read payments and reviews",
            Self::ReadAudit => "read the audit",
            Self::Ask => "have the acquirer asked",
            Self::Resend => "send a charge again",
            Self::Redeliver => "redeliver an event",
            Self::Assign => "assign a review",
            Self::Comment => "comment on a review",
            Self::Resolve => "close a review",
            Self::Propose => "force a payment's state",
            Self::Approve => "approve or reject a proposal",
            Self::ManageMerchants => "manage merchants",
            Self::ManageOperators => "manage operators",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is viewer, operator or approver")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

/// A role that is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the role {role} may not {}: that takes the role {}", action.words(), action.least_role())]
pub struct Forbidden {
    /// What was asked for.
    pub action: Action,
    /// The role that is not enough.
    pub role: Role,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who may do what, as a person would write it down.
    const TABLE: &str = "
                          viewer  operator  approver
        read              yes     yes       yes
        read_audit        yes     yes       yes
        ask               no      yes       yes
        resend            no      yes       yes
        redeliver         no      yes       yes
        assign            no      yes       yes
        comment           no      yes       yes
        resolve           no      yes       yes
        propose           no      yes       yes
        approve           no      no        yes
        manage_merchants  no      no        yes
        manage_operators  no      no        yes";

    #[test]
    fn who_may_do_what_is_this_table() {
        let mut rows = TABLE.trim_start_matches('\n').lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(rows.next().unwrap(), Role::ALL.map(Role::as_str));
        let told: Vec<_> = rows.collect();
        let done: Vec<Vec<String>> = Action::ALL.into_iter().map(row).collect();
        assert_eq!(told, done);
    }

    fn row(action: Action) -> Vec<String> {
        let name = serde_json::to_value(action).unwrap().as_str().unwrap().to_owned();
        let may = Role::ALL.map(|role| if role.may(action) { "yes" } else { "no" }.to_owned());
        [name].into_iter().chain(may).collect()
    }

    #[test]
    fn a_role_is_written_the_same_everywhere() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("{:?}", role.as_str()));
        }
        for text in ["", "Viewer", "admin", "approver "] {
            assert_eq!(text.parse::<Role>(), Err(UnknownRole), "{text:?}");
        }
    }

    #[test]
    fn who_is_refused_hears_which_role_it_takes() {
        let refused = Forbidden { action: Action::Approve, role: Role::Operator };
        assert_eq!(
            refused.to_string(),
            "the role operator may not approve or reject a proposal: that takes the role approver"
        );
    }
}
