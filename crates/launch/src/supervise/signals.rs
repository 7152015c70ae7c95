//! Signals that the launcher gets and passes on, and how it stops and goes on together with the command.

use super::Supervisor;
use crate::wire::Order;
use keyward_sys::{signal, terminal};
use rustix::process::Signal;

/// Signals that end a process by default.
const ENDING: [i32; 4] =
    [Signal::INT.as_raw(), Signal::TERM.as_raw(), Signal::HUP.as_raw(), Signal::QUIT.as_raw()];

/// Lets a stopped command go on.
pub(super) const GO_ON: Order = Order::Signal { signal: Signal::CONT.as_raw() };

impl Supervisor<'_, '_> {
    pub(super) fn take_signals(&mut self) {
        while let Some(received) = self.watch.inbox.next() {
            // There is no command yet, and a source of secrets may take long.
            if self.waits_for_vault && ENDING.contains(&received.signal) {
                self.killed_by = Some(received.signal);
                self.end_cage();
            }
            self.pass_on(received.signal);
        }
    }

    fn pass_on(&mut self, number: i32) {
        if number == Signal::WINCH.as_raw() && self.watch.screen.is_some() {
            self.take_size();
        } else if self.watch.session.is_some() && number == Signal::TERM.as_raw() {
            // The session is over, and the spawner has not noticed: a process has stopped it.
            self.end_cage();
        } else if number == Signal::CONT.as_raw() {
            self.go_on();
        } else {
            // One that stops the command comes back as a report, and then we stop as well.
            self.watch.asked_to_stop |= number == Signal::TSTP.as_raw();
            self.tell(Order::Signal { signal: number });
        }
    }

    /// The cage's terminal gets the size of the user's.
    fn take_size(&self) {
        if let (Some(screen), Some(main)) = (&self.watch.screen, self.relay.terminal())
            && let Some(size) = terminal::window_size(screen.keyboard)
        {
            terminal::set_window_size(main, size);
        }
    }

    /// The command was stopped, and so are we, as any job of the shell, unless it only waits for the keyboard and we have it to give.
    pub(super) fn stop_with_command(&mut self, signal: i32) {
        let Some(screen) = &mut self.watch.screen else {
            // A command that stops itself must not stop us: our clock ends it. Only when we were asked to stop do we stand for it.
            if std::mem::take(&mut self.watch.asked_to_stop) {
                signal::stop_self(signal);
                self.go_on();
            }
            return;
        };
        let wants_keyboard = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        self.watch.foreground |= wants_keyboard;
        if !(wants_keyboard && terminal::are_we_in_foreground(screen.keyboard)) {
            let typed = self.relay.take_suspend_typed();
            if !wants_keyboard && !typed && self.watch.wall.is_some() {
                // A command that stops itself must not stop our clock, which ends it.
                return;
            }
            screen.leave_raw();
            match (wants_keyboard, typed || self.watch.asked_to_stop) {
                (true, _) => signal::stop_own_group(signal),
                // Ctrl-Z stops the whole job, as it would without us.
                (false, true) => signal::stop_own_group(Signal::TSTP.as_raw()),
                // A command that stops itself stops no process around us; the shell still gets its terminal back.
                (false, false) => signal::stop_self(Signal::STOP.as_raw()),
            }
            self.watch.asked_to_stop = false;
        }
        self.go_on();
    }

    /// The command goes on; it reads the keyboard if it did before and if we have it.
    fn go_on(&mut self) {
        // Changes of the size are told to the foreground only, so one may have been missed.
        self.take_size();
        let order = match &mut self.watch.screen {
            // In a pipeline another program may be the one that reads.
            Some(screen) if self.watch.foreground => {
                let order = order_to_go_on(terminal::are_we_in_foreground(screen.keyboard), screen.raw);
                if order != Order::Background {
                    screen.enter_raw();
                }
                order
            }
            _ => GO_ON,
        };
        self.tell(order);
    }
}

/// How a command that reads the keyboard goes on.
fn order_to_go_on(have_keyboard: bool, had_it: bool) -> Order {
    match (have_keyboard, had_it) {
        (true, false) => Order::Foreground,
        // Which of its jobs is in front is the command's own affair.
        (true, true) => GO_ON,
        (false, _) => Order::Background,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_the_keyboard_back_only_while_we_have_it() {
        assert_eq!(order_to_go_on(true, false), Order::Foreground);
        assert_eq!(order_to_go_on(false, true), Order::Background);
        assert_eq!(order_to_go_on(false, false), Order::Background);
    }

    #[test]
    fn a_command_that_never_lost_the_keyboard_keeps_its_own_order_of_jobs() {
        assert_eq!(order_to_go_on(true, true), Order::Signal { signal: Signal::CONT.as_raw() });
    }
}
