//! Requests that are signed: what a client signed with a phantom key is checked, and signed anew with the key that is bound to the host.

use crate::aws::{self, Keys, Signed};
use crate::body::Body;
use crate::replace::Pair;
use crate::requests::hold;
use crate::swap::Signing;
use http::header::{self, HeaderName, HeaderValue};
use http::{Request, Uri};
use keyward_policy::net::{Reason, Scheme};
use zeroize::Zeroizing;

/// What an answer must not repeat of keys that sign. Lengths stay, so that objects keep theirs.
pub fn pairs_of_keys(signing: &Signing) -> Vec<(String, Pair)> {
    let real = std::str::from_utf8(signing.secret.expose()).ok().and_then(Keys::parse);
    let (Some(real), Some(phantom)) = (real, Keys::parse(&signing.binding.phantom)) else { return vec![] };
    let both = [(Some(real.id), Some(phantom.id)), (Some(real.secret), Some(phantom.secret))];
    let parts = both.into_iter().chain([(real.token, phantom.token)]);
    let pair = |(from, to): (Option<&str>, Option<&str>)| {
        let from = from?;
        let to = to.filter(|to| to.len() == from.len()).map_or_else(|| "*".repeat(from.len()), str::to_owned);
        let (from, to) = (Zeroizing::new(from.as_bytes().to_vec()), Zeroizing::new(to.into_bytes()));
        Some((signing.binding.secret.clone(), Pair { from, to }))
    };
    parts.filter_map(pair).collect()
}

/// Headers in lower case, each with its value.
pub type Fields = Vec<(String, Zeroizing<String>)>;

/// A request as its client signed it.
pub struct Asked<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub headers: Fields,
}

/// The headers of a request, and its host: this one, or the one that it names.
pub fn fields<T>(request: &Request<T>, host: Option<&str>) -> Fields {
    let headers = request.headers().iter().filter(|(name, _)| host.is_none() || *name != header::HOST);
    let mut fields: Fields = headers
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), Zeroizing::new(value.to_str().ok()?.to_owned())))
        })
        .collect();
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    if let Some(host) = host.or(named.filter(|_| !request.headers().contains_key(header::HOST))) {
        fields.push((header::HOST.to_string(), Zeroizing::new(host.to_owned())));
    }
    fields
}

/// Signs a request anew, with the key that is bound to its host.
pub async fn sign(
    asked: &Asked<'_>,
    request: &mut Request<Body>,
    authority: &str,
    signing: &Signing,
) -> Result<(), (Reason, String)> {
    let secret = &signing.binding.secret;
    let real = std::str::from_utf8(signing.secret.expose()).ok().and_then(Keys::parse);
    let real = real.ok_or_else(|| {
        (
            Reason::NoValue,
            format!("the value of {secret} is not KEY-ID:SECRET-KEY or KEY-ID:SECRET-KEY:TOKEN"),
        )
    })?;
    let (Scheme::AwsV4 { service, region }, Some(phantom)) =
        (&signing.binding.scheme, Keys::parse(&signing.binding.phantom))
    else {
        return Err((Reason::Signature, format!("{secret}: {}", aws::Unsigned::OtherKey.words())));
    };
    let refuse = |why: aws::Unsigned| {
        (Reason::Signature, format!("{secret}, bound to {service} in {region}: {}", why.words()))
    };
    let sent_target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let sent_headers = fields(request, Some(authority));
    let [asked_fields, sent_fields] = [&asked.headers, &sent_headers]
        .map(|fields| fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>());
    let read = |target, headers| {
        let (path, query) = split(target);
        aws::Request { method: asked.method, path, query, headers, body: None }
    };
    let (client, host) = (read(asked.target, &asked_fields), read(&sent_target, &sent_fields));
    let whole = if aws::needs_body(client, service) {
        let whole = hold(std::mem::replace(request.body_mut(), Body::empty())).await;
        let whole = whole.ok_or_else(|| refuse(aws::Unsigned::NeedsBody))?;
        *request.body_mut() = Body::whole(whole.clone());
        Some(whole)
    } else {
        None
    };
    let client = aws::Request { body: whole.as_deref(), ..client };
    match aws::sign(client, host, phantom, real, service, region).map_err(refuse)? {
        Signed::Headers { authorization, token } => {
            let headers = request.headers_mut();
            headers.remove(aws::TOKEN);
            let token = token.map(|token| (HeaderName::from_static(aws::TOKEN), token));
            for (name, value) in [(header::AUTHORIZATION, authorization)].into_iter().chain(token) {
                let value = HeaderValue::from_str(&value);
                let mut value = value.map_err(|_| {
                    (Reason::NoValue, format!("the value of {secret} does not fit into a header"))
                })?;
                // Not kept in the tables that compress headers.
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        Signed::Query(query) => {
            let target = format!("{}?{query}", split(&sent_target).0);
            *request.uri_mut() = Uri::try_from(target).map_err(|_| {
                (Reason::NoValue, format!("the value of {secret} does not fit into a target"))
            })?;
        }
    }
    Ok(())
}

fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}
