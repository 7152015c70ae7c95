//! One D-Bus message: where it ends, its header, its body.
//!
//! The bus and the keyring read every message again, with parsers of their own. So a message is accepted here only in the one form that
//! cannot be read in two ways: each header field at most once and of its own type, padding of zeros, lengths that end exactly where
//! their content ends, nothing behind it. Real clients write no other form.

/// Longer messages are refused. The bus allows 128 MiB; secrets are short.
pub const LONGEST: usize = 1 << 20;
/// So many bytes tell the length of a message.
pub const START: usize = 16;
/// The header's fields of one message. The longest path and names that the bus allows are far shorter in practice.
const LONGEST_FIELDS: usize = 16 * 1024;
/// The longest name of a bus, an interface, a member or an error.
const LONGEST_NAME: usize = 255;

/// The sender wants no answer.
pub const NO_REPLY_EXPECTED: u8 = 1;
/// All flags that are known: no reply, no start of the service, questions to the user allowed.
pub const KNOWN_FLAGS: u8 = 7;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// These bytes are no message that we would pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The byte order of a message; its sender chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    fn of(byte: u8) -> Result<Order, Malformed> {
        match byte {
            b'l' => Ok(Order::Little),
            b'B' => Ok(Order::Big),
            _ => Err(Malformed),
        }
    }

    fn number(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Call,
    Return,
    Error,
    Signal,
}

/// The header of a message. Text that is not there is empty; the bus allows no empty name, so nothing is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    pub kind: Kind,
    pub flags: u8,
    pub serial: u32,
    pub path: &'a str,
    pub interface: &'a str,
    pub member: &'a str,
    pub error_name: &'a str,
    /// Zero where there is none.
    pub reply_serial: u32,
    pub destination: &'a str,
    pub sender: &'a str,
    pub signature: &'a str,
    pub has_descriptors: bool,
}

/// A message that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub order: Order,
    pub head: Head<'a>,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// How many bytes the message has that starts here; `None` as long as there are too few to know.
    pub fn length(start: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some(start) = start.first_chunk::<START>() else { return Ok(None) };
        let order = Order::of(start[0])?;
        let size = |at: usize| {
            let bytes = [start[at], start[at + 1], start[at + 2], start[at + 3]];
            usize::try_from(order.number(bytes)).map_err(|_| Malformed)
        };
        let (body, fields) = (size(4)?, size(12)?);
        if fields > LONGEST_FIELDS || body > LONGEST {
            return Err(Malformed);
        }
        let length = START + fields.next_multiple_of(8) + body;
        if length > LONGEST { Err(Malformed) } else { Ok(Some(length)) }
    }

    /// Reads a message that fills these bytes exactly.
    pub fn read(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if Message::length(bytes)? != Some(bytes.len()) {
            return Err(Malformed);
        }
        let order = Order::of(bytes[0])?;
        let mut reader = Reader { order, bytes, at: 1 };
        let kind = match reader.byte()? {
            1 => Kind::Call,
            2 => Kind::Return,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => return Err(Malformed),
        };
        let flags = reader.byte()?;
        let version = reader.byte()?;
        let body_length = reader.number()? as usize;
        let serial = reader.number()?;
        if version != 1 || serial == 0 {
            return Err(Malformed);
        }
        let mut head = Head { kind, flags, serial, ..Head::default() };
        let end = reader.array(8)?;
        let mut seen = 0u16;
        while reader.at < end {
            reader.align(8)?;
            reader.field(&mut head, &mut seen)?;
        }
        if reader.at != end {
            return Err(Malformed);
        }
        reader.align(8)?;
        let body = bytes.get(reader.at..).ok_or(Malformed)?;
        if body.len() != body_length
            || !is_whole(&head, seen)
            || (head.signature.is_empty() && !body.is_empty())
        {
            return Err(Malformed);
        }
        Ok(Message { order, head, body })
    }

    /// The body, if it is of this type.
    pub fn body(&self, signature: &str) -> Result<Reader<'a>, Malformed> {
        if self.head.signature != signature {
            return Err(Malformed);
        }
        Ok(Reader { order: self.order, bytes: self.body, at: 0 })
    }
}

/// Whether the fields are those that a message of this kind has: all it needs, and none that belongs to another kind.
fn is_whole(head: &Head<'_>, seen: u16) -> bool {
    let has = |field: u8| seen & (1 << field) != 0;
    let (addressed, answers) = (has(PATH) && has(MEMBER), has(REPLY_SERIAL));
    match head.kind {
        Kind::Call => addressed && !answers && !has(ERROR_NAME),
        Kind::Signal => addressed && has(INTERFACE) && !answers && !has(ERROR_NAME),
        Kind::Return => answers && !has(ERROR_NAME) && !has(PATH) && !has(INTERFACE) && !has(MEMBER),
        Kind::Error => answers && has(ERROR_NAME) && !has(PATH) && !has(INTERFACE) && !has(MEMBER),
    }
}

/// Reads values one after the other, each checked for its only form.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    order: Order,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    /// Skips padding, which must be zero.
    fn align(&mut self, to: usize) -> Result<(), Malformed> {
        let padding = self.take(self.at.next_multiple_of(to) - self.at)?;
        if padding.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Malformed) }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let bytes = self.take(4)?.first_chunk::<4>().ok_or(Malformed)?;
        Ok(self.order.number(*bytes))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)?;
        if self.byte()? != 0 || text.contains('\0') { Err(Malformed) } else { Ok(text) }
    }

    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        let length = self.number()? as usize;
        self.text(length)
    }

    pub fn path(&mut self) -> Result<&'a str, Malformed> {
        let path = self.string()?;
        if is_path(path) { Ok(path) } else { Err(Malformed) }
    }

    pub fn signature(&mut self) -> Result<&'a str, Malformed> {
        let length = self.byte()?;
        self.text(length.into())
    }

    /// The head of an array whose elements are aligned to this; gives where its last element ends.
    fn array(&mut self, alignment: usize) -> Result<usize, Malformed> {
        let length = self.number()? as usize;
        self.align(alignment)?;
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        if end <= self.bytes.len() { Ok(end) } else { Err(Malformed) }
    }

    /// An array, each element read by `element`. More than `most` of them are refused.
    pub fn each<T>(
        &mut self,
        alignment: usize,
        most: usize,
        element: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let end = self.array(alignment)?;
        let mut list = Vec::new();
        while self.at < end {
            if list.len() == most {
                return Err(Malformed);
            }
            self.align(alignment)?;
            list.push(element(self)?);
        }
        if self.at == end { Ok(list) } else { Err(Malformed) }
    }

    /// An array of bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.array(1)?;
        self.take(end - self.at)
    }

    /// That nothing is left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(Malformed) }
    }

    fn field(&mut self, head: &mut Head<'a>, seen: &mut u16) -> Result<(), Malformed> {
        let code = self.byte()?;
        if !(PATH..=UNIX_FDS).contains(&code) || *seen & (1 << code) != 0 {
            return Err(Malformed);
        }
        *seen |= 1 << code;
        let expected = match code {
            PATH => "o",
            REPLY_SERIAL | UNIX_FDS => "u",
            SIGNATURE => "g",
            _ => "s",
        };
        if self.signature()? != expected {
            return Err(Malformed);
        }
        match code {
            PATH => head.path = self.path()?,
            INTERFACE => head.interface = self.name()?,
            MEMBER => head.member = self.name()?,
            ERROR_NAME => head.error_name = self.name()?,
            DESTINATION => head.destination = self.name()?,
            SENDER => head.sender = self.name()?,
            SIGNATURE => head.signature = self.signature()?,
            REPLY_SERIAL => {
                head.reply_serial = self.number()?;
                if head.reply_serial == 0 {
                    return Err(Malformed);
                }
            }
            _ => head.has_descriptors = self.number()? != 0,
        }
        Ok(())
    }

    fn name(&mut self) -> Result<&'a str, Malformed> {
        let name = self.string()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(Malformed);
        }
        Ok(name)
    }
}

/// Whether this is the path of an object.
pub fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_part))
}

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    order: Order,
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new(order: Order) -> Self {
        Writer { order, bytes: Vec::new() }
    }

    pub fn align(&mut self, to: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
        self
    }

    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes.push(byte);
        self
    }

    pub fn number(&mut self, number: u32) -> &mut Self {
        self.align(4);
        self.bytes.extend(self.encoded(number));
        self
    }

    fn encoded(&self, number: u32) -> [u8; 4] {
        match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        }
    }

    /// A string or a path.
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.number(length(text.len()));
        self.bytes.extend(text.as_bytes());
        self.byte(0)
    }

    pub fn signature(&mut self, text: &str) -> &mut Self {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.bytes.extend(text.as_bytes().iter().take(u8::MAX.into()));
        self.byte(0)
    }

    pub fn array(&mut self, alignment: usize, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.number(0);
        let place = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        content(self);
        let encoded = self.encoded(length(self.bytes.len() - start));
        self.bytes[place..place + 4].copy_from_slice(&encoded);
        self
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Head<'_> {
    /// The whole message with this header and this body. Descriptors are never written.
    pub fn write(&self, order: Order, body: &[u8]) -> Vec<u8> {
        let kind = match self.kind {
            Kind::Call => 1,
            Kind::Return => 2,
            Kind::Error => 3,
            Kind::Signal => 4,
        };
        let mut writer = Writer::new(order);
        writer.byte(if order == Order::Little { b'l' } else { b'B' }).byte(kind).byte(self.flags).byte(1);
        writer.number(length(body.len())).number(self.serial);
        let texts = [
            (PATH, "o", self.path),
            (INTERFACE, "s", self.interface),
            (MEMBER, "s", self.member),
            (ERROR_NAME, "s", self.error_name),
            (DESTINATION, "s", self.destination),
            (SENDER, "s", self.sender),
        ];
        writer.array(8, |writer| {
            for (code, kind, text) in texts.into_iter().filter(|(_, _, text)| !text.is_empty()) {
                writer.align(8).byte(code).signature(kind).string(text);
            }
            if self.reply_serial != 0 {
                writer.align(8).byte(REPLY_SERIAL).signature("u").number(self.reply_serial);
            }
            if !self.signature.is_empty() {
                writer.align(8).byte(SIGNATURE).signature("g").signature(self.signature);
            }
        });
        writer.align(8);
        writer.bytes.extend(body);
        writer.finish()
    }
}
