//! Plan of a call: the captured values in their order, and the message with every placeholder referring to them by number.

use std::convert::Infallible;

use proc_macro::{Ident, Span, TokenStream, TokenTree};

use crate::format::{self, Count, Operand, Piece, Spec};
use crate::input::{Argument, Call, Expression, Message, Mistake, Sigil};

/// Most fields of one callsite; equals `logdrive_wire::limits::FIELDS_MAX`.
const FIELDS_MAX: usize = 255;
/// Bytes of a field name; `logdrive_wire::limits::NAME_BYTES_MAX`.
const NAME_BYTES_MAX: usize = 1024;
/// Most bytes of a message; equals `logdrive_wire::limits::TEMPLATE_BYTES_MAX`.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Form in which a value is captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Take {
    /// Only the value itself.
    Raw,
    /// As it is, or else as text that this spec makes; the numbers in it are arguments of the format string.
    Shown(Spec<usize>),
    /// The number of calls that the limiter left out.
    Suppressed,
}

/// One field of the record's callsite.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    /// Index of the value in [`Plan::values`]; unused for [`Take::Suppressed`].
    pub(crate) value: usize,
    pub(crate) take: Take,
    /// True if the message shows it.
    pub(crate) is_argument: bool,
}

/// The whole of what a call captures.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Every expression, to be evaluated once and in this order.
    pub(crate) values: Vec<Expression>,
    pub(crate) slots: Vec<Slot>,
    /// Index of the first format argument in `values`.
    pub(crate) first_argument: usize,
    pub(crate) message: String,
}

/// Makes the plan of a call; takes the fields and arguments out of it.
pub(crate) fn plan(call: &mut Call, is_counted: bool) -> Result<Plan, Mistake> {
    let mut plan = Plan {
        values: Vec::new(),
        slots: Vec::new(),
        first_argument: call.fields.len(),
        message: String::new(),
    };
    for field in call.fields.drain(..) {
        if field.name.is_empty() || field.name.len() > NAME_BYTES_MAX {
            let text = format!("the name of a field has 1 to {NAME_BYTES_MAX} bytes");
            return Err(Mistake::at(field.value.span, text));
        }
        let take = match field.sigil {
            Sigil::None => Take::Raw,
            Sigil::Display => Take::Shown(Spec::plain()),
            Sigil::Debug => Take::Shown(Spec {
                form: "?",
                ..Spec::plain()
            }),
        };
        plan.slots.push(Slot {
            name: field.name,
            value: plan.values.len(),
            take,
            is_argument: false,
        });
        plan.values.push(field.value);
    }
    if is_counted {
        plan.slots.push(Slot {
            name: "suppressed".into(),
            value: 0,
            take: Take::Suppressed,
            is_argument: false,
        });
    }
    if let Some(message) = call.message.take() {
        let arguments = core::mem::take(&mut call.arguments);
        plan.message(&message, arguments)?;
    }
    if plan.slots.len() > FIELDS_MAX {
        let text = format!("a record has at most {FIELDS_MAX} fields and arguments");
        return Err(Mistake::at(Span::call_site(), text));
    }
    Ok(plan)
}

/// The arguments of one format string.
struct Arguments<'a> {
    message: &'a Message,
    list: Vec<Argument>,
    is_used: Vec<bool>,
    /// Number of arguments that stand in the call; the others are variables that the format string names.
    explicit: usize,
}

impl Arguments<'_> {
    fn resolve(&mut self, operand: &Operand) -> Result<usize, Mistake> {
        let index = match operand {
            Operand::Index(index) => *index,
            Operand::Name(name) => match self.list.iter().position(|argument| argument.name == *name) {
                Some(index) => index,
                None => self.variable(name)?,
            },
        };
        if index >= self.explicit && matches!(operand, Operand::Index(_)) {
            let count = self.explicit;
            let text = format!(
                "the format string wants argument {index} (counted from 0), but there {} {count} behind it",
                if count == 1 { "is" } else { "are" }
            );
            return Err(Mistake::at(self.message.span, text));
        }
        if let Some(is_used) = self.is_used.get_mut(index) {
            *is_used = true;
        }
        Ok(index)
    }

    /// A `{name}` that is no argument: the variable of that name where the format string stands.
    fn variable(&mut self, name: &str) -> Result<usize, Mistake> {
        let span = self.message.span;
        let ident = identifier(name, span)
            .ok_or_else(|| Mistake::at(span, format!("`{name}` is not the name of a variable")))?;
        self.list.push(Argument {
            name: name.to_owned(),
            value: Expression {
                tokens: TokenStream::from(TokenTree::from(ident)),
                span,
            },
        });
        self.is_used.push(true);
        Ok(self.list.len() - 1)
    }

    /// `{}` and `.*` were resolved when the string was read, so that this sees all that is used.
    fn check_used(&self) -> Result<(), Mistake> {
        let mut arguments = self.list.iter().zip(&self.is_used);
        let Some((argument, _)) = arguments.find(|(_, is_used)| !**is_used) else {
            return Ok(());
        };
        let text = match argument.name.as_str() {
            "" => {
                "this argument is not used by the format string; fields stand before the message".to_owned()
            }
            name => format!(
                "`{name}` is not used by the format string; to log it as a field, put `{name} = ...` before it"
            ),
        };
        Err(Mistake::at(argument.value.span, text))
    }

    fn check_names(&self) -> Result<(), Mistake> {
        for (index, argument) in self.list.iter().enumerate() {
            let text = if argument.name.len() > NAME_BYTES_MAX {
                format!("the name of an argument has at most {NAME_BYTES_MAX} bytes")
            } else if argument.name.is_empty() && index > 0 && !self.name(index - 1).is_empty() {
                "arguments without a name stand before those with one".to_owned()
            } else if !argument.name.is_empty() && (0..index).any(|other| self.name(other) == argument.name) {
                format!("there are two arguments of the name `{}`", argument.name)
            } else {
                continue;
            };
            return Err(Mistake::at(argument.value.span, text));
        }
        Ok(())
    }

    fn name(&self, index: usize) -> &str {
        self.list.get(index).map_or("", |argument| &argument.name)
    }
}

impl Plan {
    fn message(&mut self, message: &Message, list: Vec<Argument>) -> Result<(), Mistake> {
        let mut arguments = Arguments {
            message,
            is_used: vec![false; list.len()],
            explicit: list.len(),
            list,
        };
        arguments.check_names()?;
        for piece in format::parse(&message.text).map_err(|text| Mistake::at(message.span, text))? {
            match piece {
                Piece::Text(text) => self.message.push_str(&text.replace('{', "{{").replace('}', "}}")),
                Piece::Placeholder(placeholder) => {
                    let value = arguments.resolve(&placeholder.value)?;
                    let spec = placeholder.spec.try_map(|operand| arguments.resolve(operand))?;
                    let slot = self.slot(value, spec.clone(), &arguments);
                    // In the message, width and precision are fields of the record like all others.
                    let Ok(spec) = spec
                        .try_map(|index| Ok::<_, Infallible>(self.slot(*index, Spec::plain(), &arguments)));
                    spec.print(&mut self.message, slot);
                }
            }
        }
        arguments.check_used()?;
        if self.message.len() > MESSAGE_BYTES_MAX {
            let text = format!("a message has at most {MESSAGE_BYTES_MAX} bytes");
            return Err(Mistake::at(message.span, text));
        }
        self.values
            .extend(arguments.list.into_iter().map(|argument| argument.value));
        Ok(())
    }

    /// The field that holds an argument, taken for one spec. A type that only text can hold needs one for
    /// each spec, and which types those are is not known here; the name stays with the first.
    fn slot(&mut self, argument: usize, spec: Spec<usize>, arguments: &Arguments<'_>) -> usize {
        let value = self.first_argument + argument;
        let take = Take::Shown(spec);
        let found = self
            .slots
            .iter()
            .position(|slot| slot.is_argument && slot.value == value && slot.take == take);
        if let Some(index) = found {
            return index;
        }
        let name = arguments.name(argument);
        let is_taken = self.slots.iter().any(|slot| slot.name == name);
        self.slots.push(Slot {
            name: if is_taken { String::new() } else { name.to_owned() },
            value,
            take,
            is_argument: true,
        });
        self.slots.len() - 1
    }
}

impl Spec<usize> {
    /// The arguments of the format string that give width and precision.
    pub(crate) fn counts(&self) -> impl Iterator<Item = usize> {
        [&self.width, &self.precision]
            .into_iter()
            .filter_map(|count| match count {
                Some(Count::Argument(index)) => Some(*index),
                _ => None,
            })
    }
}

/// An identifier that resolves where the format string stands.
fn identifier(name: &str, span: Span) -> Option<Ident> {
    if name.is_ascii() {
        return Some(Ident::new(name, span));
    }
    // `Ident::new` panics where a letter cannot stand in an identifier; the lexer knows.
    match name.parse::<TokenStream>().ok()?.into_iter().next()? {
        TokenTree::Ident(mut ident) if ident.to_string() == name => {
            ident.set_span(span);
            Some(ident)
        }
        _ => None,
    }
}
