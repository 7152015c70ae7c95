//! What is particular to Linux. Another platform stands beside this module.

pub mod acts;
pub mod cage;
pub mod kernel;
pub mod surface;
