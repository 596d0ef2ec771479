// SPDX-License-Identifier: GPL-2.0
//! Queues by netlink: set, change, delete, list, and the log of a port.

use crate::Queue;
use futures_util::{StreamExt as _, TryStreamExt as _};
use rtnetlink::{
    packet_core::{
        DefaultNla, ErrorMessage, NetlinkMessage, NetlinkPayload, Nla as _, NlaBuffer,
        NlasIterator, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    },
    packet_route::{
        tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2, TcXstats},
        RouteNetlinkMessage,
    },
    sys::AsyncSocket as _,
    Handle,
};
use std::{fmt, io};
use wire::tc;

/// What the kernel says no to.
#[derive(Debug)]
pub struct Refused {
    /// Its error.
    pub error: io::Error,
    /// Its reason, when it gives one.
    pub why: Option<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{why} ({})", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

impl std::error::Error for Refused {}

impl From<rtnetlink::Error> for Refused {
    fn from(error: rtnetlink::Error) -> Self {
        match error {
            rtnetlink::Error::NetlinkError(message) => Self::of(&message),
            other => Self {
                error: io::Error::other(other.to_string()),
                why: None,
            },
        }
    }
}

impl Refused {
    fn of(message: &ErrorMessage) -> Self {
        Self {
            error: message.to_io(),
            why: reason(&message.header),
        }
    }
}

/// The kernel's reason: behind the request that it sends back there are attributes, of which the first
/// kind is a text.
fn reason(answer: &[u8]) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let len = u32::from_ne_bytes(answer.get(..4)?.try_into().ok()?) as usize;
    let attributes = answer.get(len.checked_next_multiple_of(4)?..)?;
    let text = NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|nla: &NlaBuffer<&[u8]>| nla.kind() == NLMSGERR_ATTR_MSG)?;
    let text = text.value().split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Opens a netlink socket in the current network namespace, within a tokio runtime that drives it.
///
/// # Errors
///
/// The socket's.
pub fn open() -> io::Result<Handle> {
    let (mut connection, handle, _) = rtnetlink::new_connection()?;
    // Reasons in words. A kernel that does not know of it gives none.
    connection.socket_mut().socket_mut().set_ext_ack(true).ok();
    tokio::spawn(connection);
    Ok(handle)
}

/// What [`set`] does when there is a queue of the same kind already, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A new queue; an error when there is one that somebody set.
    Add,
    /// Other parameters for the one that is there; an error when there is none.
    Change,
    /// Whichever of the two.
    Replace,
}

/// The root queue of an interface, as a request names it.
fn root(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::ROOT;
    message
}

async fn request(handle: &Handle, what: RouteNetlinkMessage, flags: u16) -> Result<(), Refused> {
    let mut request = NetlinkMessage::from(what);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut answer = handle.clone().request(request)?;
    while let Some(message) = answer.next().await {
        if let NetlinkPayload::Error(e) = message.payload {
            if e.code.is_some() {
                return Err(Refused::of(&e));
            }
        }
    }
    Ok(())
}

/// Puts a queue at the root of an interface. `options` are the bytes of the qdisc's TCA_OPTIONS.
///
/// # Errors
///
/// The kernel's.
pub async fn set(
    handle: &Handle,
    index: u32,
    kind: &str,
    options: Vec<u8>,
    how: How,
) -> Result<(), Refused> {
    const TCA_OPTIONS: u16 = 2;
    let mut message = root(index);
    if how != How::Change {
        message.header.handle = TcHandle { major: 1, minor: 0 };
    }
    message.attributes.push(TcAttribute::Kind(kind.to_owned()));
    message
        .attributes
        .push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)));
    let flags = match how {
        How::Add => NLM_F_CREATE | NLM_F_EXCL,
        How::Change => 0,
        How::Replace => NLM_F_CREATE | NLM_F_REPLACE,
    };
    request(
        handle,
        RouteNetlinkMessage::NewQueueDiscipline(message),
        flags,
    )
    .await
}

/// Takes the queue off an interface; it gets the kernel's own again.
///
/// # Errors
///
/// The kernel's.
pub async fn delete(handle: &Handle, index: u32) -> Result<(), Refused> {
    let message = RouteNetlinkMessage::DelQueueDiscipline(root(index));
    request(handle, message, 0).await
}

/// The root queues of this namespace.
///
/// # Errors
///
/// The kernel's.
pub async fn list(handle: &Handle) -> Result<Vec<Queue>, Refused> {
    let mut queues = Vec::new();
    let mut all = handle.qdisc().get().execute();
    while let Some(message) = all.try_next().await? {
        if message.header.parent == TcHandle::ROOT {
            queues.push(queue(&message));
        }
    }
    Ok(queues)
}

/// The records of a port's log from number `from` on: the number of the first one, which is larger
/// when older ones are gone, and all that follow.
///
/// # Errors
///
/// The kernel's.
pub async fn log(
    handle: &Handle,
    index: u32,
    from: u64,
) -> Result<(u64, Vec<tc::Record>), Refused> {
    let mut records = Vec::new();
    let (mut first, mut next) = (None, from);
    loop {
        let options = tc::attribute(tc::LOG_FROM, next).to_vec();
        set(handle, index, tc::NAME, options, How::Change).await?;
        let queues = list(handle).await?;
        let Some(queue) = queues.into_iter().find(|q| q.index == index) else {
            return Ok((from, records));
        };
        let (at, chunk) = queue.log;
        if at > next && !records.is_empty() {
            // Records that were there a moment ago have been overwritten: those before are of no use.
            records.clear();
            first = None;
        }
        first.get_or_insert(at);
        if chunk.is_empty() {
            return Ok((first.unwrap_or(from), records));
        }
        next = at + chunk.len() as u64;
        records.extend(chunk);
    }
}

fn queue(message: &TcMessage) -> Queue {
    let mut queue = Queue {
        index: message.header.index as u32,
        ..Queue::default()
    };
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => queue.kind.clone_from(kind),
            TcAttribute::Options(options) => {
                for option in options {
                    let TcOption::Other(option) = option else {
                        continue;
                    };
                    // Of a kind that the library does not know it gives all options as one.
                    let mut bytes = vec![0; option.value_len()];
                    option.emit_value(&mut bytes);
                    if queue.is_port() {
                        port(&mut queue, &bytes);
                    }
                }
            }
            TcAttribute::Stats2(stats) => {
                for stat in stats {
                    match stat {
                        TcStats2::Queue(q) => {
                            queue.backlog_bytes = q.backlog.into();
                            queue.drops = q.drops.into();
                        }
                        TcStats2::Basic(b) => queue.packets = b.packets.into(),
                        TcStats2::App(TcXstats::Other(bytes)) => {
                            for (to, from) in queue.stats.iter_mut().zip(bytes.chunks_exact(8)) {
                                *to = u64::from_ne_bytes(from.try_into().unwrap_or_default());
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if !queue.is_port() {
        queue.stats = Default::default();
    }
    queue
}

/// The parameters of a port and the part of its log.
fn port(queue: &mut Queue, options: &[u8]) {
    for nla in NlasIterator::new(options).map_while(Result::ok) {
        let value = nla.value();
        if nla.kind() == tc::LOG_RECORDS {
            queue.log.1 = value
                .chunks_exact(tc::Record::LEN)
                .filter_map(|bytes| Some(tc::Record::decode(bytes.try_into().ok()?)))
                .collect();
        } else if let Ok(value) = <[u8; 8]>::try_from(value) {
            let value = u64::from_ne_bytes(value);
            if nla.kind() == tc::LOG_FIRST {
                queue.log.0 = value;
            } else {
                queue.settings.push((nla.kind(), value));
            }
        }
    }
}
