//! Syntax, captures and evaluation of the logging macros, seen from the text that arrives.

mod logged;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use logdrive::{Level, debug, error, event, every_ms, every_n, fatal, info, once, trace, warn};
use logged::{disabled, one, several};

/// A type that can only be rendered.
#[derive(Clone)]
struct Point(i32, i32);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("<{};{}>", self.0, self.1))
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Point").field(&self.0).field(&self.1).finish()
    }
}

/// The message must be what `format!` makes of the same tokens.
macro_rules! same {
    ($($call:tt)*) => {
        assert_eq!(one(|| info!($($call)*)).text, format!($($call)*))
    };
}

#[test]
fn the_message_is_what_format_makes_of_it() {
    let (id, price, name, point) = (7u64, 9.125f64, "ann", Point(1, -2));
    same!("plain");
    same!("{{braces}} {id} {{}}");
    same!("{} {} {}", id, price, name);
    same!("{id} {price:.2} {name:?} {point} {point:?}");
    same!("{1} {0} {1}", id, name);
    same!("{0} {0:?} {0:#x} {0:b} {0:o} {0:X} {0:e}", id);
    same!("{a} {b:?}", a = id, b = name);
    same!("{} {a} {id} {0}", 5, a = point,);
    same!(
        "[{:>8}] [{:<8}] [{:^8}] [{:*^9}] [{:08.3}] [{:+}]",
        id,
        name,
        name,
        price,
        price,
        id
    );
    same!("[{point:>12}] [{point:<12}] [{point:-^12}] [{point:12?}]");
    same!("{:#?} {:#?}", point, id);
    same!("{:x?} {:02}", -1i32, -5i8);
    same!("{:x} {:X} {:b}", -1i32, -1i16, -1i8);
    same!(r"raw \n {id}");
    same!(r#"raw "quoted" {}"#, name);
    same!("escapes \t \u{e9} \x41 \\ é 😀 {}", 'é');
    same!(
        "continued \
         line {}",
        1
    );
}

#[test]
fn widths_and_precisions_come_from_arguments() {
    let (width, prec, value, point) = (10usize, 3usize, 2.0f64.sqrt(), Point(3, 4));
    same!("[{:>1$}] [{:.*}] [{:>1$.0$}]", 5, 7, 9.25, 1.5);
    same!(
        "[{:>width$.prec$}] [{value:width$}] [{value:.prec$}] [{value:>1$.2$}]",
        value,
        9,
        2
    );
    same!(
        "[{point:>width$}] [{point:^1$}] [{:>w$.p$}]",
        point,
        12,
        w = 11,
        p = 4
    );
    same!("[{:.*}] [{:.*}]", 3, value, 2, "abcdef");
    same!("[{:0$}] [{0:0$}] [{:01$}]", 4, 6);
    same!("[{x:.*}]", 2, x = value);
    same!("[{:#>1$}] [{:}<5}] [{ }] [{:? }]", 1, 4, 'c', "s");
}

#[test]
fn all_types_of_std_are_shown_as_std_shows_them() {
    same!("{} {} {} {}", i8::MIN, i16::MIN, i32::MIN, i64::MIN);
    same!("{} {} {} {}", u8::MAX, u16::MAX, u32::MAX, u64::MAX);
    same!("{} {} {} {}", i128::MIN, u128::MAX, isize::MIN, usize::MAX);
    same!("{} {} {:?} {:?} {}", 0.1f32, 0.1f64, 1.0f32, 1e300f64, f64::NAN);
    same!("{} {:?} {} {:?}", true, false, 'x', '\n');
    same!(
        "{} {:?} {:?}",
        String::from("owned"),
        String::from("q\"uote"),
        Cow::Borrowed("cow")
    );
    same!(
        "{} {} {} {}",
        Box::new(1),
        Rc::new("rc"),
        Arc::new(2.5),
        Box::<str>::from("boxed")
    );
    same!("{} {:?} {}", &&&5, &mut "x", NonZeroU32::MIN);
    same!("{:?} {:?} {:?}", Some(1), None::<&str>, Some("text"));
    same!("{:?} {:?} {:?}", b"bytes", vec![1u8, 2], &[1u8, 2][..]);
    same!("{:?} {:?} {:?}", (), Some(Some(1)), Some(Point(1, 2)));
    same!(
        "{:?} {:?} {:?}",
        [1u32, 2],
        (1, "a"),
        std::time::Duration::from_millis(1500)
    );
    same!(
        "{:?} {:p} {:?}",
        16 as *const u8,
        16 as *mut u8,
        std::ptr::NonNull::<u8>::dangling()
    );
    let (target, error) = (9u8, std::io::Error::other("broken"));
    same!("{:p} {:?}", &target, &raw const target);
    same!("{} {error} {error:?}", &error as &dyn std::error::Error);
    same!("{}", format_args!("{}-{}", 1, target));
}

#[test]
fn fields_keep_their_names_values_and_order() {
    struct Order {
        id: u64,
        user: Point,
        pair: (u8, &'static str),
    }
    let order = Order {
        id: 5,
        user: Point(1, 2),
        pair: (3, "x"),
    };
    let (price, name, r#type) = (1.5, "ann", 'c');
    let line = one(|| {
        info!(
            order_id = order.id,
            price,
            order.id,
            order.pair.0,
            ?order.user,
            %order.user,
            "quoted key" = 1 + 1,
            http.status.code = 200u16,
            shown = %order.user,
            debugged = ?order.user,
            r#type,
            ?name,
            %price,
            bytes = [1u8, 2],
            none = None::<u8>,
            some = Some(name),
            order.pair.1 = "overridden",
            "{} filled for {name}",
            order.id
        )
    });
    let expected = [
        r#"order_id=5 price=1.5 order.id=5 order.pair.0=3 order.user="Point(1, 2)" order.user=<1;2>"#,
        r#"quoted\x20key=2 http.status.code=200 shown=<1;2> debugged="Point(1, 2)" type=c name=ann price=1.5"#,
        r#"bytes=\x01\x02 some=ann order.pair.1=overridden"#,
    ];
    assert_eq!(line.fields, expected.join(" "));
    assert_eq!(line.text, "5 filled for ann");
}

#[test]
fn fields_alone_make_a_record() {
    let count = 3;
    assert_eq!(one(|| info!(count)).fields, "count=3");
    assert_eq!(one(|| info!(a = 1, b = "x",)).fields, "a=1 b=x");
    assert_eq!(one(|| info!(?count,)).text, "");
}

#[test]
fn many_values_make_one_record() {
    let line = one(|| {
        info!(
            a = 0,
            b = 1,
            c = 2,
            d = 3,
            e = 4,
            f = 5,
            g = 6,
            h = 7,
            i = 8,
            j = 9,
            k = 10,
            l = 11,
            m = 12,
            n = 13,
            o = 14,
            "{} {} {} {} {} {} {} {} {} {} {} {} {} {}",
            15u8,
            16u16,
            17u32,
            18u64,
            19i8,
            20i16,
            21i32,
            22i64,
            "23",
            '4',
            25.5,
            true,
            Point(2, 7),
            "28"
        )
    });
    let fields: Vec<_> = ('a'..='o')
        .zip(0..)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(line.fields, fields.join(" "));
    assert_eq!(line.text, "15 16 17 18 19 20 21 22 23 4 25.5 true <2;7> 28");
}

#[test]
fn levels_and_targets_are_those_of_the_call() {
    const NET: &str = "net";
    const LOUD: Level = Level::Warn;
    let lines = several(|| {
        trace!("compiled in, or not");
        debug!("1");
        info!("2");
        warn!("3");
        error!("4");
        fatal!("5");
        event!(Info, "6");
        event!(LOUD, target: NET, "7");
        event!(logdrive::Level::Error, target: "a::b", x = 1, "8");
        info!(target: concat!("x", "y"), "9");
    });
    let shown: Vec<_> = lines
        .iter()
        .filter(|line| line.level != "TRACE")
        .map(|line| format!("{} {} {}", line.level, line.target, line.text))
        .collect();
    let own = module_path!();
    let expected = [
        format!("DEBUG {own} 1"),
        format!("INFO {own} 2"),
        format!("WARN {own} 3"),
        format!("ERROR {own} 4"),
        format!("FATAL {own} 5"),
        format!("INFO {own} 6"),
        "WARN net 7".into(),
        "ERROR a::b 8".into(),
        "INFO xy 9".into(),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn arguments_are_evaluated_once_and_in_order_or_not_at_all() {
    let calls = Cell::new(0);
    let count = |expected: u32| {
        assert_eq!(calls.replace(calls.get() + 1), expected);
        expected
    };
    let log = || {
        calls.set(0);
        debug!(a = count(0), b = ?count(1), "{2} {1:?} {0} {1} {x} {x:?}", count(2), count(3), count(4), x = count(5));
    };
    assert!(disabled(log).is_empty());
    assert_eq!(calls.get(), 0);
    let line = one(log);
    assert_eq!(calls.get(), 6);
    assert_eq!(line.text, "4 3 2 3 5 5");
}

#[test]
fn temporaries_live_until_the_record_is_written() {
    let mutex = std::sync::Mutex::new(String::from("locked"));
    let line = one(|| {
        info!(
            "{} {}",
            mutex.lock().unwrap().as_str(),
            String::from("temporary").as_str()
        )
    });
    assert_eq!(line.text, "locked temporary");
    assert!(mutex.try_lock().is_ok());
}

#[test]
#[rustfmt::skip] // Line breaks would hide what is tested.
#[allow(clippy::overly_complex_bool_expr, clippy::redundant_closure_call)]
fn commas_inside_of_expressions_do_not_end_them() {
    use std::collections::BTreeMap;
    fn pick<A, B>(a: A, _: B) -> A { a }
    let (a, b, c) = (1, 2, 3);
    let map = BTreeMap::from([(1, 2)]);
    same!("{}", pick::<u8, BTreeMap<u8, Vec<u8>>>(1, BTreeMap::new()));
    same!("{} {}", a < b, b > c);
    same!("{} {}", (a < b) as u8, a << b);
    same!("{:?} {}", map.iter().map(|(k, v)| k + v).collect::<Vec<_>>(), 5);
    same!("{} {}", map.iter().fold(0, |x, (k, v)| x + k + v), a | b);
    same!("{} {}", (|x, y| x + y)(1, 2), true || a == 1);
    same!("{}", <BTreeMap<u8, u8> as Default>::default().len());
    same!("{} {}", a | b, if a < b { "less" } else { "more" });
    same!("{} {}", match a { 1 => "one", _ => "many" }, Vec::<(u8, u8)>::new().len());
    same!("{:?} {}", [1, 2], { let t = (1, 2); t.0 });
    same!("{} {}", std::mem::size_of::<Result<u8, fn(u8, u8) -> u8>>(), a >= b);
    same!("{:?} {:?}", a..b, ..=c);
    let on = a > 0;
    same!("{} {}", -a, !on);
    same!("{x}", x = pick(move |a: u8, b: u8| -> u8 { a + b }, 0)(1, 2));
    let line = one(|| info!(sum = (|x: i32, y: i32| x + y)(1, 2), cast = a as u8, less = a < b, gen = pick::<u8, u8>(7, 8), "x"));
    assert_eq!(line.fields, "sum=3 cast=1 less=true gen=7");
    let line = one(|| info!(f = ?pick(|x, y| x + y, 1)(1, 2), g = %a, "{}", |x: u8, y: u8| -> Result<u8, u8> { Ok(x + y) }(1, 2).is_ok()));
    assert_eq!((&*line.fields, &*line.text), ("f=3 g=1", "true"));
}

#[test]
fn question_mark_and_return_leave_the_caller() {
    fn parse(text: &str) -> Result<(), std::num::ParseIntError> {
        info!("{}", text.parse::<u8>()?);
        Ok(())
    }
    fn first(values: &[u8]) -> u8 {
        info!(
            value = match values.first() {
                Some(value) => *value,
                None => return 99,
            },
            "x"
        );
        1
    }
    let lines = several(|| {
        assert!(parse("5").is_ok() && parse("x").is_err());
        assert_eq!((first(&[1]), first(&[])), (1, 99));
    });
    assert_eq!(lines.len(), 2);
}

#[test]
fn awaits_work_in_arguments_and_the_future_stays_send() {
    async fn value(value: u32) -> u32 {
        value
    }
    async fn logs(name: String) -> u32 {
        info!(
            field = value(3).await,
            "{} {name} {}",
            value(1).await,
            Point(value(2).await as i32, 0)
        );
        4
    }
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let mut future = Box::pin(assert_send(logs("ann".into())));
    let line = one(|| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_ready());
    });
    assert_eq!(line.text, "1 ann <2;0>");
}

#[test]
fn generic_values_are_rendered_by_their_bounds() {
    fn log<T: fmt::Display + fmt::Debug + ?Sized, U: Copy + Into<u64>>(value: &T, number: U) {
        info!(%value, n = number.into(), "{value} {value:?} {:>5}", value);
    }
    let line = one(|| log("x", 7u8));
    assert_eq!(line.text, "x \"x\"     x");
    assert_eq!(one(|| log(&5, 7u8)).text, "5 5     5");
    trait Named {
        const NAME: &'static str;
        fn log(&self) {
            info!(name = Self::NAME, "in a trait");
        }
    }
    impl Named for Point {
        const NAME: &'static str = "point";
    }
    assert_eq!(one(|| Point(0, 0).log()).fields, "name=point");
}

#[test]
fn one_in_n_and_the_first_are_logged_with_what_was_left_out() {
    let lines = several(|| {
        for call in 0..7 {
            every_n!(3, Warn, call, "call {call}");
            once!(Info, "once {call}");
        }
    });
    let shown: Vec<_> = lines.iter().map(|line| (&*line.text, &*line.fields)).collect();
    let expected = [
        ("call 0", "call=0 suppressed=0"),
        ("once 0", ""),
        ("call 3", "call=3 suppressed=2"),
        ("call 6", "call=6 suppressed=2"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_period_without_end_logs_once() {
    let lines = several(|| {
        for call in 0..5 {
            every_ms!(1_000_000_000, Level::Error, target: "t", "call {call}");
        }
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].fields, "suppressed=0");
}

#[test]
fn disabled_calls_do_not_use_up_a_limit() {
    let periods = Cell::new(0);
    let log = || {
        every_n!(periods.replace(2), Debug, "n");
        once!(Debug, "once");
    };
    assert!(disabled(log).is_empty());
    assert_eq!(periods.get(), 0);
    // Closures share the statics of their statements.
    assert_eq!(several(log).len(), 2);
}

#[test]
fn a_display_that_logs_fails_or_is_long_does_no_harm() {
    struct Nested;
    impl fmt::Display for Nested {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            info!("inner {}", Point(5, 6));
            f.write_str("outer")
        }
    }
    struct Failing;
    impl fmt::Display for Failing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("before")?;
            Err(fmt::Error)
        }
    }
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..100_000 {
                f.write_str("abcdé")?;
            }
            Ok(())
        }
    }
    let lines = several(|| info!("{} {}", Nested, Failing));
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["inner <5;6>", "outer before"]);
    let line = one(|| info!(number = 5, "{} {}", Endless, Point(1, 2)));
    assert!(line.text.len() > 60_000 && line.text.len() < 65_536);
    assert!(line.text.ends_with("… <1;2>") && line.text.starts_with("abcdéabcdé"));
}

#[test]
fn values_longer_than_a_record_are_cut_and_the_short_ones_stay_whole() {
    let (long, huge) = ("é".repeat(100_000), vec![7u8; 200_000]);
    let line = one(|| {
        info!(
            a = 1,
            huge = huge,
            maybe = Some(&long),
            "{} {long} {}",
            "short",
            2
        )
    });
    assert!(
        line.text.starts_with("short éé") && line.text.ends_with("é… 2"),
        "{}",
        line.text.len()
    );
    let maybe = line.fields.rsplit_once("maybe=").unwrap().1;
    assert!(maybe.len() > 21_000 && maybe.ends_with('…'), "{}", maybe.len());
    let fits = "x".repeat(40_000);
    assert_eq!(one(|| info!("{fits}{}", 1)).text.len(), 40_001);
}

#[test]
fn a_call_is_an_expression_without_a_value() {
    let log = |value: u8| match value {
        0 => info!("zero"),
        1 => debug!(value, "one"),
        2 => every_n!(1, Warn, "two"),
        _ => (),
    };
    let lines = several(|| {
        log(0);
        log(1);
        log(2);
        let () = info!("unit");
        if true {
            info!("tail")
        }
    });
    assert_eq!(lines.len(), 5);
}

#[test]
fn macros_of_the_caller_may_wrap_a_call() {
    macro_rules! literal {
        ($message:literal $(, $value:expr)*) => { info!($message $(, $value)*) };
    }
    macro_rules! expression {
        ($message:expr, $name:ident, $value:expr, $path:path) => {
            info!(target: "wrapped", $name, key = $value, other = $path, $message, $value)
        };
    }
    macro_rules! local {
        ($value:ident) => {{
            let hidden = 5;
            info!("{hidden} {}", $value);
        }};
    }
    let (id, hidden) = (7, 8);
    assert_eq!(one(|| literal!("{id} {}", 1 + 1)).text, "7 2");
    let line = one(|| expression!("value {}", id, if id > 1 { id } else { 0 }, u8::MAX));
    assert_eq!((&*line.text, &*line.fields), ("value 7", "id=7 key=7 other=255"));
    assert_eq!(one(|| local!(hidden)).text, "5 8");
}
