//! `payonce migrate`

use crate::support::{payonce_on, postgres, run};
use std::thread;

#[tokio::test]
async fn of_many_at_once_one_applies_each_migration() {
    let database = postgres().await;
    let migrate = || run(payonce_on(&database, "http://127.0.0.1:1", &["migrate"]));
    let ended = thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(migrate)).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(ended.iter().all(|one| one.code == Some(0)), "{ended:?}");
    let who_applied = ended.iter().filter(|one| one.out.contains("applied 0001")).count();
    let who_found_it_done = ended.iter().filter(|one| one.out.starts_with("nothing to apply")).count();
    assert_eq!((who_applied, who_found_it_done), (1, 3), "{ended:?}");
}
