//! The rules that come with Keyward, as the build has made them of `data/rules.toml`.

use super::kinds::Decides::*;
use super::kinds::Needs::*;
use super::kinds::Runs::*;
use super::kinds::Tongue::*;
use super::kinds::{Places, Taint};
use super::tables::{Entry, Interpreter, List, Program, Rule, Tables, Text, Wrapper};
use std::borrow::Cow;

include!(concat!(env!("OUT_DIR"), "/rules.rs"));
