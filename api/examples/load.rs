//! throw-away
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (key, conns, n, extra) = (
        args[1].clone(),
        args[2].parse::<usize>().unwrap(),
        args[3].parse::<usize>().unwrap(),
        args.get(4).cloned().unwrap_or_default(),
    );
    let run = std::process::id();
    let began = Instant::now();
    let mut tasks = vec![];
    for c in 0..conns {
        let (key, extra) = (key.clone(), extra.clone());
        tasks.push(tokio::spawn(async move {
            let mut s = tokio::net::TcpStream::connect("127.0.0.1:18080").await.unwrap();
            s.set_nodelay(true).unwrap();
            let mut times = vec![];
            let mut buf = vec![0u8; 16384];
            for i in 0..n / conns {
                let id = format!("l-{run}-{c}-{i}");
                let body = format!("{{\"payment_intent_id\":\"{id}\",\"amount_minor\":1999,\"currency\":\"EUR\",\"payment_method_id\":\"pm_ok\"}}");
                let head = format!("POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: {id}\r\n{extra}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let t = Instant::now();
                s.write_all(head.as_bytes()).await.unwrap();
                let mut got = 0;
                loop {
                    let k = s.read(&mut buf[got..]).await.unwrap();
                    assert!(k > 0);
                    got += k;
                    let text = std::str::from_utf8(&buf[..got]).unwrap();
                    if let Some(h) = text.find("\r\n\r\n") {
                        let len: usize = text.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
                        if got >= h + 4 + len { if !text.starts_with("HTTP/1.1 202") { panic!("{text}"); } break; }
                    }
                }
                times.push(t.elapsed());
            }
            times
        }));
    }
    let mut all = vec![];
    for t in tasks {
        all.extend(t.await.unwrap());
    }
    all.sort();
    let p = |q: f64| all[((all.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e3;
    println!(
        "{} posts, {:.0}/s, p50 {:.2} p95 {:.2} p99 {:.2} max {:.2} ms",
        all.len(),
        all.len() as f64 / began.elapsed().as_secs_f64(),
        p(0.5),
        p(0.95),
        p(0.99),
        p(1.0)
    );
}
