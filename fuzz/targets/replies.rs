//! Replies of masters as the crate understands them: from bytes as they come, and from values of any form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use multilock::fuzzing::{first_reply, understand};
use redis::Value;

const DEEPEST: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((value, length))) = first_reply(rest) {
        understand(&value);
        rest = &rest[length..];
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        understand(&any_value(&mut rest, 0));
    }
});

/// A value that the bytes choose: more often than framed ones of a form that is nearly right.
fn any_value(bytes: &mut &[u8], depth: usize) -> Value {
    let [kind, rest @ ..] = *bytes else {
        return Value::Nil;
    };
    *bytes = rest;
    match kind % 8 {
        0 => Value::Int(i64::from(*kind) / 8 - 4),
        1 => Value::Int(number(bytes)),
        2 => Value::BulkString(text(bytes)),
        3 => Value::SimpleString(String::from_utf8_lossy(&text(bytes)).into_owned()),
        // A stamp with a marker.
        4 => Value::BulkString([number(bytes).to_string().into_bytes(), vec![b' '], text(bytes)].concat()),
        5 => Value::BulkString(number(bytes).to_string().into_bytes()),
        _ if depth == DEEPEST => Value::Okay,
        _ => {
            let values = usize::from(*kind / 8) % 9;
            Value::Array((0..values).map(|_| any_value(bytes, depth + 1)).collect())
        }
    }
}

fn number(bytes: &mut &[u8]) -> i64 {
    let (number, rest) = bytes.split_at(bytes.len().min(8));
    *bytes = rest;
    number
        .iter()
        .fold(0, |number, byte| (number << 8) | i64::from(*byte))
}

fn text(bytes: &mut &[u8]) -> Vec<u8> {
    let [length, rest @ ..] = *bytes else {
        return Vec::new();
    };
    let (text, rest) = rest.split_at(rest.len().min(usize::from(*length % 16)));
    *bytes = rest;
    text.to_vec()
}
