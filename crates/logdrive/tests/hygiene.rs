//! The macros in a program with strict lints, no prelude, and names of its own wherever an expansion has some.
#![forbid(unsafe_code)]
#![deny(warnings, clippy::all, clippy::pedantic)]

#[allow(clippy::pedantic)]
mod logged;

/// Here nothing of the standard library is in scope.
mod no_prelude {
    #![no_implicit_prelude]

    pub(crate) fn log() {
        let (a, width) = (1, 5);
        ::logdrive::info!(a, ?a, "{a} {} {:>width$}", 2, "x");
        ::logdrive::warn!(target: "t", "plain");
        ::logdrive::every_n!(2, Info, "n");
        ::logdrive::every_ms!(1_000_000, Info, "ms");
        ::logdrive::once!(Info, "once");
        ::logdrive::fatal!("fatal");
        ::logdrive::event!(
            ::logdrive::Level::Error,
            some = ::core::option::Option::Some(1),
            "event"
        );
    }
}

/// Names of the expansion, taken by the program.
mod shadowed {
    #![allow(
        dead_code,
        non_upper_case_globals,
        clippy::items_after_statements,
        clippy::similar_names
    )]

    #[derive(Debug)]
    pub(crate) struct Some(pub(crate) u8);
    #[derive(Debug)]
    pub(crate) struct Option;
    pub(crate) struct Level;
    pub(crate) struct Site;
    pub(crate) const SITE: u8 = 1;
    pub(crate) static META: u8 = 2;
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod logdrive_macros {}
    pub(crate) trait Capture {
        fn display(&self, _: u8) {}
        fn debug(&self, _: u8) {}
        fn capture(&self) {}
        fn pass(self)
        where
            Self: Sized,
        {
        }
        fn tie(self)
        where
            Self: Sized,
        {
        }
        fn write(&self) {}
    }
    impl<T> Capture for T {}
    macro_rules! format_args {
        () => {
            0
        };
    }
    macro_rules! line {
        () => {
            0
        };
    }
    macro_rules! file {
        () => {
            0
        };
    }

    pub(crate) fn log() {
        let (site, kinds, ticket, values, limiter, suppressed) = (1, 2, 3, 4, 5, 6);
        let (a0, a1, __a0, __a1, __site, __kinds, __ticket, __values) = (1, 2, 3, 4, 5, 6, 7, 8);
        ::logdrive::info!(
            a1,
            a0,
            "{a1} {a0} {__a1} {__a0} {__site} {__kinds} {__ticket} {__values}"
        );
        ::logdrive::info!("{SITE} {META} {site} {kinds} {ticket} {values}");
        ::logdrive::every_n!(limiter, Info, suppressed, "{:?} {:?} {limiter}", Some(9), Option);
        ::logdrive::every_ms!(limiter, Info, "{suppressed}");
        let _ = (format_args!(), line!(), file!());
    }
}

#[test]
fn no_prelude_is_needed() {
    let lines = logged::several(no_prelude::log);
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["1 2     x", "plain", "n", "ms", "once", "fatal", "event"]);
}

#[test]
fn names_of_the_program_are_not_mixed_up_with_those_of_the_expansion() {
    let lines = logged::several(shadowed::log);
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["2 1 4 3 5 6 7 8", "1 2 1 2 3 4", "Some(9) Option 5", "6"]);
    assert_eq!(lines[2].fields, "suppressed=6 suppressed=0");
}

#[test]
fn strict_lints_find_nothing_in_an_expansion() {
    let (a, text) = (1, String::from("text"));
    let lines = logged::several(|| {
        logdrive::info!("no arguments");
        logdrive::info!(a, text, "{}", (a + 1),);
    });
    assert_eq!(lines.len(), 2);
}
