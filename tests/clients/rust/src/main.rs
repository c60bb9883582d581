// SPDX-License-Identifier: Apache-2.0
// A client on rustls that trusts the system's roots (SSL_CERT_FILE) and takes its proxy from the environment.
// What it does and prints is told in ../README.md.
use std::io::Read;
use std::process::{Command, Stdio};

fn text(r: Result<ureq::Response, ureq::Error>) -> (String, String) {
    match r {
        Ok(r) => (r.status().to_string(), r.into_string().unwrap_or_else(|e| e.to_string())),
        Err(ureq::Error::Status(code, r)) => (code.to_string(), r.into_string().unwrap_or_else(|e| e.to_string())),
        Err(e) => ("error".to_string(), e.to_string()),
    }
}

fn sha256(data: &[u8]) -> String {
    use std::io::Write;
    let mut p = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    p.stdin.take().unwrap().write_all(data).unwrap();
    let out = p.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&out[..64]).into_owned()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (base, mark, file) = (&args[1], &args[2], &args[3]);
    let agent = ureq::builder().try_proxy_from_env(true).build();
    let show = |word: &str, (status, body): (String, String)| println!("{} {} {}", word, status, body.trim());

    show("allowed", text(agent.get(&format!("{}/v1/hello?{}", base, mark)).call()));
    show("refused", text(agent.delete(&format!("{}/v1/hello?{}", base, mark)).call()));
    show("elsewhere", text(agent.get("https://elsewhere.test/").call()));
    let mut data = Vec::new();
    match agent.get(&format!("{}/v1/big?{}", base, mark)).call() {
        Ok(r) => match r.into_reader().read_to_end(&mut data) {
            Ok(_) => println!("down {}", sha256(&data)),
            Err(e) => println!("down {}", e),
        },
        Err(e) => println!("down {}", e),
    }
    let blob = std::fs::read(file).unwrap();
    show("up", text(agent.put(&format!("{}/v1/up?{}", base, mark)).send_bytes(&blob)));
    // A reader has no length: this one goes in chunks.
    show("chunked", text(agent.put(&format!("{}/v1/up?{}", base, mark)).send(&blob[..])));
}
