//! The form into which a shell script is read: commands, words and where they stand.

use crate::text::Bytes;
use crate::verdict::Span;
use std::cell::OnceCell;
use std::rc::Rc;

/// Commands in the order in which they are written.
pub type List = Vec<Node>;

#[derive(Debug)]
pub enum Node {
    Simple(Simple),
    /// Stages, each reading what the one before has written.
    Pipe(List),
    /// A compound command whose parts run one after the other.
    Body {
        kind: Kind,
        parts: List,
        redirects: Vec<Redirect>,
    },
    For {
        name: Bytes,
        words: Vec<Word>,
        body: List,
        redirects: Vec<Redirect>,
    },
    /// A command that is defined now and runs when it is called.
    Function {
        name: Bytes,
        body: Rc<Node>,
        span: Span,
    },
    /// Runs beside what follows.
    Background(Box<Node>),
    /// Words that are expanded and run nothing: `[[ … ]]`, `(( … ))`, the subject of `case`.
    Words(Vec<Word>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{ …; }`: what it assigns is there afterwards.
    Group,
    /// `( … )`: what it assigns is gone afterwards.
    Subshell,
    /// A branch or a loop: what it assigns may be there afterwards.
    Branch,
}

#[derive(Debug)]
pub struct Simple {
    pub assigns: Vec<Assign>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Assign {
    pub name: Bytes,
    pub value: Word,
    pub append: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    Append,
    Text,
    Descriptor,
}

#[derive(Debug)]
pub struct Redirect {
    pub direction: Direction,
    pub target: Target,
}

#[derive(Debug)]
pub enum Target {
    Word(Word),
    /// A here-document; its text stands further down and is put in when it is read.
    Document(Rc<OnceCell<Word>>),
}

#[derive(Clone, Debug)]
pub struct Word {
    pub pieces: Pieces,
    pub span: Span,
}

/// The pieces of a word. Most words are of one, which is kept in place.
#[derive(Clone, Debug, Default)]
pub enum Pieces {
    #[default]
    None,
    One(Piece),
    Many(Vec<Piece>),
}

impl Pieces {
    pub fn push(&mut self, piece: Piece) {
        *self = match std::mem::take(self) {
            Pieces::None => Pieces::One(piece),
            Pieces::One(first) => Pieces::Many(vec![first, piece]),
            Pieces::Many(mut pieces) => {
                pieces.push(piece);
                Pieces::Many(pieces)
            }
        };
    }

    pub fn as_slice(&self) -> &[Piece] {
        match self {
            Pieces::None => &[],
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [Piece] {
        match self {
            Pieces::None => &mut [],
            Pieces::One(piece) => std::slice::from_mut(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Piece> {
        self.as_slice().iter()
    }
}

impl<'a> IntoIterator for &'a Pieces {
    type Item = &'a Piece;
    type IntoIter = std::slice::Iter<'a, Piece>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[derive(Clone, Debug)]
pub enum Piece {
    Text {
        bytes: Bytes,
        quoted: bool,
    },
    Variable {
        name: Bytes,
        change: Change,
        quoted: bool,
    },
    /// `$( … )` and backticks.
    Output {
        body: Rc<List>,
        quoted: bool,
    },
    /// `<( … )` and `>( … )`.
    Process {
        body: Rc<List>,
    },
    /// Arithmetic: its value is a number, but what stands in it is expanded.
    Number(Box<Pieces>),
    /// `name=( … )`.
    Array(Vec<Word>),
}

/// What `${name…}` does to the value.
#[derive(Clone, Debug)]
pub enum Change {
    None,
    Length,
    /// `${!name}`.
    Indirect,
    /// `-`, `=`, `+` and `?` with their word.
    Default(u8, Box<Word>),
    /// `:offset:length`, as written.
    Slice(Box<Word>),
    /// `#`, `%`: the byte, and the pattern.
    Trim(u8, Box<Word>),
    /// `/pattern/text`.
    Replace(Box<Word>),
    Upper,
    Lower,
    /// Something this reader does not follow, with the words in it.
    Other(Box<Word>),
}
