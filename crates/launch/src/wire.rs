//! Sends and receives the messages between the launcher and init of a cage. `keyward_protocol::init` has the messages and their codec.

use keyward_protocol::init::Packet;
pub use keyward_protocol::init::{Order, Report};
use keyward_sys::channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// Tells the launcher something; if it is gone, so are we in a moment.
pub fn report(socket: impl AsFd, report: Report, descriptors: &[BorrowedFd<'_>]) {
    let _ = channel::send(socket, &report.encode(), descriptors);
}

/// The next report; `None` when init has closed its side.
pub fn next_report(socket: impl AsFd) -> Option<(Report, Vec<OwnedFd>)> {
    let mut bytes = Packet::default();
    let message = channel::receive(socket, &mut bytes).ok()?;
    Report::decode(bytes.get(..message.length)?).map(|report| (report, message.descriptors))
}

/// Tells init something.
pub fn order(socket: impl AsFd, order: Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    channel::send(socket, &order.encode(), descriptors)
}

/// The next order; `None` when the launcher is gone.
pub fn next_order(socket: impl AsFd) -> Option<(Order, Vec<OwnedFd>)> {
    let mut bytes = Packet::default();
    let message = channel::receive(socket, &mut bytes).ok()?;
    Order::decode(bytes.get(..message.length)?).map(|order| (order, message.descriptors))
}
