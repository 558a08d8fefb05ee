//! The code that a call becomes.
//!
//! Names that the expansion binds around the caller's code carry the hygiene of this crate and cannot meet the
//! caller's; items have no hygiene, hence each static stands in a block of its own. No closure is put around what the caller wrote,
//! so that `?`, `return` and `.await` work in arguments.

use std::convert::Infallible;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::input::{Call, Level, Limiter, Mistake};
use crate::plan::{Plan, Slot, Take};

/// Values of one tuple; `logdrive` implements `Fields` for tuples up to this length and for `Cons` of two.
const TUPLE_MAX: usize = 12;

/// Writes code from templates: `$` is the path to the front-end crate, `#0` a part that is put in.
struct Quote {
    krate: Ident,
    span: Span,
}

impl Quote {
    fn code(&self, template: &str, parts: &[TokenStream]) -> TokenStream {
        let mut open: Vec<Vec<TokenTree>> = vec![Vec::new()];
        let mut chars = template.chars().peekable();
        while let Some(found) = chars.next() {
            if let Some(delimiter) = closed_by(found) {
                let inner = open.pop().unwrap_or_default();
                let mut group = Group::new(delimiter, inner.into_iter().collect());
                group.set_span(self.span);
                push(&mut open, group);
                continue;
            }
            match found {
                ' ' | '\n' => {}
                '(' | '[' | '{' => open.push(Vec::new()),
                '$' => push(&mut open, self.krate.clone()),
                '#' => {
                    let index = chars.next().and_then(|digit| digit.to_digit(10)).unwrap_or(0);
                    let part = parts.get(index as usize).cloned().unwrap_or_default();
                    if let Some(top) = open.last_mut() {
                        top.extend(part);
                    }
                }
                letter if letter.is_ascii_alphabetic() || letter == '_' => {
                    let mut word = String::from(letter);
                    while let Some(more) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                        word.push(more);
                    }
                    push(&mut open, Ident::new(&word, self.span));
                }
                other => {
                    let is_joint = chars.peek().is_some_and(|next| ":=>&<".contains(*next));
                    let spacing = if is_joint { Spacing::Joint } else { Spacing::Alone };
                    let mut punct = Punct::new(other, spacing);
                    punct.set_span(self.span);
                    push(&mut open, punct);
                }
            }
        }
        open.pop().unwrap_or_default().into_iter().collect()
    }

    fn text(&self, text: &str) -> TokenStream {
        let mut literal = Literal::string(text);
        literal.set_span(self.span);
        TokenTree::from(literal).into()
    }

    /// The name that a value is bound to. It bears the span of the caller's expression, so that errors about the
    /// type point there, and with it the caller's hygiene: where it is bound, nothing of the caller's stands.
    fn binding(&self, plan: &Plan, value: usize) -> TokenStream {
        let span = plan.values.get(value).map_or(self.span, |value| value.span);
        TokenTree::from(Ident::new(&format!("__a{value}"), span)).into()
    }

    /// Returns the expression for the value behind a binding.
    fn dereferenced(&self, plan: &Plan, value: usize) -> TokenStream {
        let binding = self.binding(plan, value);
        let mut star = Punct::new('*', Spacing::Alone);
        star.set_span(plan.values.get(value).map_or(self.span, |value| value.span));
        [TokenStream::from(TokenTree::from(star)), binding]
            .into_iter()
            .collect()
    }
}

fn closed_by(found: char) -> Option<Delimiter> {
    match found {
        ')' => Some(Delimiter::Parenthesis),
        ']' => Some(Delimiter::Bracket),
        '}' => Some(Delimiter::Brace),
        _ => None,
    }
}

fn push(open: &mut [Vec<TokenTree>], token: impl Into<TokenTree>) {
    if let Some(top) = open.last_mut() {
        top.push(token.into());
    }
}

/// Returns the code that a call expands to.
pub(crate) fn emit(call: &Call, plan: &Plan) -> TokenStream {
    let quote = Quote {
        krate: call.krate.clone(),
        span: Span::mixed_site(),
    };
    let (level, urgent) = match &call.level {
        Level::Known(name) => {
            let level = quote.code(&format!("$::Level::{name}"), &[]);
            let is_urgent = matches!(*name, "Warn" | "Error" | "Fatal");
            (level, quote.code(if is_urgent { "true" } else { "false" }, &[]))
        }
        Level::Constant(tokens) => {
            let urgent = quote.code("{ $::Level::is_urgent(#0) }", core::slice::from_ref(tokens));
            (tokens.clone(), urgent)
        }
    };
    let after = quote.code(
        if call.is_fatal {
            "$::__private::after_fatal();"
        } else {
            ""
        },
        &[],
    );
    let write = write(&quote, plan, &urgent);
    let logged = quote.code("#0 #1", &[write, after]);
    let limited = limited(&quote, &call.limiter, logged);
    let site = site(&quote, call, plan, &level);
    quote.code(
        "{ if #0 >= $::__private::STATIC_MIN_LEVEL {
            let __site = #1;
            let __kinds = $::__private::Kinds::new();
            if let $::__private::Some(__ticket) = __site.admit(&__kinds) { #2 }
        } }",
        &[level, site, limited],
    )
}

/// The callsite's static, as an expression that gives a reference to it.
fn site(quote: &Quote, call: &Call, plan: &Plan, level: &TokenStream) -> TokenStream {
    let fields = plan
        .slots
        .iter()
        .flat_map(|slot| {
            let argument = if slot.is_argument { "true" } else { "false" };
            let template = format!("$::__private::FieldMeta {{ name: #0, argument: {argument} }},");
            quote.code(&template, &[quote.text(&slot.name)])
        })
        .collect();
    let target = call.target.clone().unwrap_or_else(|| quote.text(""));
    quote.code(
        "{
            static __LOGDRIVE_SITE: $::__private::Site = $::__private::Site::new(&$::__private::Meta {
                level: #0, file: $::__private::file!(), line: $::__private::line!(),
                module: $::__private::module_path!(), target: #1, message: #2, fields: &[#3],
            });
            &__LOGDRIVE_SITE
        }",
        &[level.clone(), target, quote.text(&plan.message), fields],
    )
}

/// Puts the limiter around what logs.
fn limited(quote: &Quote, limiter: &Limiter, logged: TokenStream) -> TokenStream {
    let suppressed = "let $::__private::Some(__suppressed) = __limiter";
    let (passes, amount) = match limiter {
        Limiter::None => return logged,
        Limiter::EveryN(amount) => (format!("{suppressed}.every_n(#0)"), amount.clone()),
        Limiter::EveryMs(amount) => (
            format!("{suppressed}.every_ms(#0, $::__private::coarse_ms())"),
            amount.clone(),
        ),
        Limiter::Once => ("__limiter.once()".to_owned(), TokenStream::new()),
    };
    let template = format!(
        "let __limiter = {{
            static __LOGDRIVE_LIMITER: $::__private::Limiter = $::__private::Limiter::new();
            &__LOGDRIVE_LIMITER
        }};
        if {passes} {{ #1 }}"
    );
    quote.code(&template, &[amount, logged])
}

/// Evaluates the values, captures them and writes the record.
fn write(quote: &Quote, plan: &Plan, urgent: &TokenStream) -> TokenStream {
    let captured: Vec<TokenStream> = plan.slots.iter().map(|slot| capture(quote, plan, slot)).collect();
    let write = quote.code(
        "let __values = #0;
        $::__private::Kinds::tie(&__kinds, &__values);
        __site.write::<#1, _>(__ticket, __values);",
        &[tuple(quote, &captured), urgent.clone()],
    );
    if plan.values.is_empty() {
        return write;
    }
    let scrutinee = plan
        .values
        .iter()
        .flat_map(|value| quote.code("&(#0),", core::slice::from_ref(&value.tokens)))
        .collect();
    let pattern = (0..plan.values.len())
        .flat_map(|value| quote.code("#0,", &[quote.binding(plan, value)]))
        .collect();
    quote.code("match (#0) { (#1) => { #2 } }", &[scrutinee, pattern, write])
}

/// One tuple, or tuples chained where the values are many.
fn tuple(quote: &Quote, captured: &[TokenStream]) -> TokenStream {
    let (head, tail) = captured.split_at(captured.len().min(TUPLE_MAX));
    let head = head
        .iter()
        .flat_map(|value| quote.code("#0,", core::slice::from_ref(value)))
        .collect();
    let head = quote.code("(#0)", &[head]);
    if tail.is_empty() {
        return head;
    }
    quote.code("$::__private::Cons(#0, #1)", &[head, tuple(quote, tail)])
}

fn capture(quote: &Quote, plan: &Plan, slot: &Slot) -> TokenStream {
    let binding = quote.binding(plan, slot.value);
    let spec = match &slot.take {
        Take::Raw => return quote.code("$::__private::raw_value(#0)", &[binding]),
        Take::Suppressed => return quote.code("$::__private::raw_value(&__suppressed)", &[]),
        Take::Shown(spec) => spec,
    };
    // The value is argument 0 here; width and precision follow.
    let mut inner = quote.dereferenced(plan, slot.value);
    let mut next = 0;
    let Ok(renumbered) = spec.try_map(|_| {
        next += 1;
        Ok::<_, Infallible>(next)
    });
    for index in spec.counts() {
        inner.extend(quote.code(", #0", &[quote.dereferenced(plan, plan.first_argument + index)]));
    }
    let mut text = String::new();
    renumbered.print(&mut text, 0);
    let method = if spec.is_debug() {
        "logdrive_debug"
    } else {
        "logdrive_display"
    };
    // `{:p}` asks for the address of what a reference refers to, which a captured value has lost, and `{:#?}` for
    // lines of its own. Both are taken as text, whatever the type.
    let is_text = spec.form == "p" || (spec.is_debug() && spec.flags.contains('#'));
    let holder = if is_text {
        "$::__private::Any"
    } else {
        "$::__private::Arg::new(#0)"
    };
    let template = format!("{holder}.{method}($::__private::format_args!(#1, #2))");
    quote.code(&template, &[binding, quote.text(&text), inner])
}

/// A compile error at the caller's tokens.
pub(crate) fn mistake(mistake: &Mistake) -> TokenStream {
    let quote = Quote {
        krate: Ident::new("core", mistake.start),
        span: mistake.start,
    };
    let mut text = Literal::string(&mistake.text);
    text.set_span(mistake.end);
    let mut arguments = Group::new(Delimiter::Parenthesis, TokenTree::from(text).into());
    arguments.set_span(mistake.end);
    let tokens = quote.code("::$::compile_error!#0", &[TokenTree::from(arguments).into()]);
    // In braces, so that it stands wherever the call may stand.
    TokenTree::from(Group::new(Delimiter::Brace, tokens)).into()
}
