//! Requests to engines by HTTP.

use crate::address::EngineAddress;
use crate::error::{EngineError, Refusal};
use crate::limits::{CONNECT_TIMEOUT, RESPONSE_BYTES_MAX, RESPONSE_TIMEOUT, SHOWN_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Client of one engine. It keeps its connection from request to request.
#[derive(Debug)]
pub(crate) struct HttpClient {
    agent: Agent,
    base: String,
    headers: Vec<(&'static str, String)>,
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) retry_after: Option<Duration>,
}

impl HttpClient {
    /// A client for an address, with its options for passwords and certificates.
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let mut tls = TlsConfig::builder();
        if let Some(authorities) = address.option_file("tls_ca")? {
            let parsed: Result<Vec<Certificate<'static>>, _> = ureq::tls::parse_pem(authorities.as_bytes())
                .filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
                    Ok(_) => None,
                    Err(error) => Some(Err(error)),
                })
                .collect();
            let parsed = parsed.map_err(|error| address.wrong(format!("tls_ca: {error}")))?;
            tls = tls.root_certs(RootCerts::new_with_certs(&parsed));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(RESPONSE_TIMEOUT))
            .user_agent(concat!("logdrive/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build()
            .new_agent();
        let mut headers = Vec::new();
        if let Some(token) = address.option_file("token_file")? {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        if let Some(user) = address.option("user") {
            let password = address.option_file("password_file")?.unwrap_or_default();
            headers.push((
                "authorization",
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
            ));
        }
        Ok(Self {
            agent,
            base: format!("{}://{}", address.transport(), address.hosts),
            headers,
        })
    }

    /// Sends a request with a body, and reads the answer. What is no answer is a refusal to retry.
    pub(crate) fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpAnswer, Refusal> {
        let mut request = self.agent.post(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request.send(body).map_err(failed)?)
    }

    /// Makes an object at an address that is signed.
    #[cfg(feature = "s3")]
    pub(crate) fn put(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpAnswer, Refusal> {
        let mut request = self.agent.put(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request.send(body).map_err(failed)?)
    }

    /// Asks for a header of an object at an address that is signed; `None` where there is no object.
    #[cfg(feature = "s3")]
    pub(crate) fn head(&self, url: &str, header: &str) -> Result<Option<String>, Refusal> {
        let response = self.agent.head(url).call().map_err(failed)?;
        if !response.status().is_success() {
            return Ok(None);
        }
        let value = response
            .headers()
            .get(header)
            .and_then(|value| value.to_str().ok());
        Ok(Some(value.unwrap_or_default().to_owned()))
    }
}

fn failed(error: ureq::Error) -> Refusal {
    Refusal::Retry {
        why: error.to_string(),
        after: None,
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> Result<HttpAnswer, Refusal> {
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    let body = response
        .body_mut()
        .with_config()
        .limit(RESPONSE_BYTES_MAX)
        .read_to_vec();
    Ok(HttpAnswer {
        status: response.status().as_u16(),
        body: body.map_err(failed)?,
        retry_after: retry_after.map(Duration::from_secs),
    })
}

impl HttpAnswer {
    /// Returns the answer where it is a success, else the refusal that its status means to most engines.
    pub(crate) fn success(self) -> Result<Self, Refusal> {
        let why = || format!("status {}: {}", self.status, self.shown());
        match self.status {
            200..=299 => Ok(self),
            400 | 422 => Err(Refusal::Invalid { why: why() }),
            413 => Err(Refusal::TooLarge { why: why() }),
            // Passwords, names and configurations are wrong until somebody mends them: the records wait.
            _ => Err(Refusal::Retry {
                why: why(),
                after: self.retry_after,
            }),
        }
    }

    /// Front of the body, on one line.
    pub(crate) fn shown(&self) -> String {
        let front = self.body.get(..SHOWN_BYTES).unwrap_or(&self.body);
        let front = String::from_utf8_lossy(front);
        front.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Counts of rejected records are bytes, which as text were lost, and their batch a success.
    #[test]
    fn the_body_of_an_answer_is_kept_byte_for_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("otlp+http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"the body") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("more");
                request.push(byte[0]);
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\x08\xc8\x01";
            stream.write_all(answer).expect("sent");
        });
        let client = HttpClient::new(&address.parse().expect("an address")).expect("a client");
        let answer = client.post("/v1/logs", &[], b"the body").expect("an answer");
        assert_eq!(answer.body, b"\x08\xc8\x01");
        server.join().expect("the server ends");
    }
}
