//! Searches recent payments for a second charge, slowly, where the acquirer can list what bears our reference. No
//! payment waits for it; it finds what nobody was looking for.

use crate::Context;
use crate::acquirer::{AcquirerClient, Ask};
use crate::context::jittered;
use shared::acquirer::Answer;
use shared::committer::Write;
use shared::db::in_time;
use shared::payment::Payment;
use shared::payment::call::Kind;
use shared::payment::life::Status;
use shared::payment::scan::{self, Recent};
use shared::review::{Contradiction, contradiction};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The most payments of one page.
const PAGE: i64 = 50;
/// The rest when there was nothing to search.
const IDLE: Duration = Duration::from_secs(1);
/// How long an acquirer's gate is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn run(context: Arc<Context>) {
    let worker = &context.config.worker;
    if worker.duplicate_scan_per_second == 0 || !context.acquirers.values().any(AcquirerClient::lists_by_reference) {
        return;
    }
    let pace = Duration::from_secs(1) / worker.duplicate_scan_per_second;
    let recent = Recent {
        after: Duration::from_secs(worker.duplicate_scan_after_s),
        within: Duration::from_secs(worker.duplicate_scan_within_h * 3600),
    };
    // Twice what a full page takes.
    let lease = (pace + Duration::from_secs(1)) * 100;
    loop {
        match in_time(scan::take(&context.pool, recent, PAGE, lease)).await {
            Ok(Some(page)) => {
                let seen = search(&context, &page.payments, pace).await;
                let done = scan::done(&context.pool, page.merchant_id, seen.map(Payment::key));
                if let Err(error) = in_time(done).await {
                    tracing::debug!(%error, "a page of the search for duplicates comes again");
                }
                if page.payments.is_empty() {
                    sleep(jittered(IDLE)).await;
                }
            }
            Ok(None) => sleep(jittered(IDLE)).await,
            Err(error) => {
                tracing::debug!(%error, "the search for duplicates waits for the database");
                sleep(jittered(IDLE)).await;
            }
        }
    }
}

/// Searches a page; the last payment that need not be searched again.
async fn search<'a>(context: &Context, page: &'a [Payment], pace: Duration) -> Option<&'a Payment> {
    let mut seen = None;
    for payment in page {
        let acquirer = context.acquirers.get(&payment.acquirer);
        let acquirer = acquirer.filter(|acquirer| acquirer.lists_by_reference());
        if let (Status::Paid | Status::Unknown, Some(acquirer)) = (payment.status, acquirer) {
            sleep(pace).await;
            if !search_one(context, acquirer, payment).await {
                break;
            }
        }
        seen = Some(payment);
    }
    seen
}

/// Whether it was searched.
async fn search_one(context: &Context, acquirer: &AcquirerClient, payment: &Payment) -> bool {
    let Ok(pass) = acquirer.gate().enter(Instant::now() + PATIENCE).await else { return false };
    let deadline = Instant::now() + acquirer.deadline();
    let ask = Ask { payment, transaction_id: None, request_id: Uuid::new_v4(), deadline };
    let Some(answer) = acquirer.list(ask).await else { return true };
    drop(pass);
    acquirer.gate().heard(&answer);
    context.metrics.provider_call(&payment.acquirer, Kind::Lookup, answer.outcome);
    tell(context, payment, &answer).await
}

/// Puts what was found before a person. False: it is not on record, and comes again.
async fn tell(context: &Context, payment: &Payment, answer: &Answer) -> bool {
    let (known, reported) = (payment.transaction_id.as_deref(), answer.transaction_id.as_deref());
    let reason = answer.conflict.or_else(|| contradiction(payment.status, known, answer.outcome, reported));
    let Some(reason) = reason else { return answer.was_heard() };
    let detail = match answer.conflict {
        Some(_) => answer.message.clone().unwrap_or_default(),
        None => format!(
            "the payment is {} by the charge {}, and the acquirer lists the charge {} for it",
            payment.status,
            known.unwrap_or("without an id"),
            reported.unwrap_or("without an id")
        ),
    };
    tracing::warn!(
        payment_id = %payment.id, merchant_id = %payment.merchant_id, reason = reason.as_str(), detail, "a person must look"
    );
    let row = Contradiction { of: payment.key(), reason, detail };
    context.committer.write(Write::Contradiction(row)).await.is_ok()
}
