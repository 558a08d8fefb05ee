//! The calls at an address of a program: from its debug information, which also knows functions that the compiler has put into
//! others, else from its table of symbols. Reads files and allocates.

use addr2line::Loader;
use std::cell::RefCell;
use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// One call. Empty texts where nothing is known.
pub(crate) struct Call<'a> {
    /// Name as the compiler wrote it.
    pub(crate) name: &'a str,
    pub(crate) file: &'a str,
    /// 0 where it is not known.
    pub(crate) line: u32,
}

/// Calls at one address at most: a function may be put into itself.
const CALLS_MAX: usize = 32;

thread_local! {
    /// The file that was asked last: a stack asks for it again and again.
    static LAST: RefCell<Option<(PathBuf, Option<Loader>)>> = const { RefCell::new(None) };
}

/// Gives the calls at an address, counted as the file counts it, innermost first; returns how many there are.
pub(crate) fn at(module: &Path, address: u64, take: impl FnMut(Call<'_>)) -> c_int {
    // No file is so long, and addr2line adds to it.
    if address > u64::MAX / 2 {
        return 0;
    }
    LAST.with(|last| {
        let mut last = last.borrow_mut();
        if last.as_ref().is_none_or(|(path, _)| path != module) {
            // A file that cannot be read is not asked again.
            *last = Some((module.to_owned(), Loader::new(module).ok()));
        }
        match last.as_ref() {
            Some((_, Some(loader))) => calls_in(loader, address, take),
            _ => 0,
        }
    })
}

fn calls_in(loader: &Loader, address: u64, mut take: impl FnMut(Call<'_>)) -> c_int {
    let symbol = loader.find_symbol(address);
    let mut count = 0;
    if let Ok(mut frames) = loader.find_frames(address) {
        let mut next = frames.next();
        while let Ok(Some(frame)) = next {
            next = frames.next();
            let raw = frame
                .function
                .as_ref()
                .and_then(|function| function.raw_name().ok());
            let name = raw.as_deref().unwrap_or("");
            // The outermost call is the function that the table of symbols has, with its namespaces and arguments, which debug
            // information lacks for a function of one file.
            let is_outermost = !matches!(next, Ok(Some(_)));
            let place = frame.location.as_ref();
            let call = Call {
                name: symbol.filter(|_| is_outermost).unwrap_or(name),
                file: place.and_then(|place| place.file).unwrap_or(""),
                line: place.and_then(|place| place.line).unwrap_or(0),
            };
            if count < CALLS_MAX && !(call.name.is_empty() && call.file.is_empty()) {
                take(call);
                count += 1;
            }
        }
    }
    if count == 0
        && let Some(name) = symbol
    {
        take(Call {
            name,
            file: "",
            line: 0,
        });
        count = 1;
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its address is looked for.
    #[inline(never)]
    fn looked_for() -> usize {
        std::hint::black_box(looked_for as fn() -> usize as usize)
    }

    /// Address at which the program begins in memory.
    fn start() -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a process has a map");
        let own = std::env::current_exe().expect("a test is a program");
        let line = maps
            .lines()
            .find(|line| line.ends_with(&*own.to_string_lossy()))
            .expect("it is mapped");
        usize::from_str_radix(line.split('-').next().expect("an address"), 16).expect("a number")
    }

    #[test]
    fn an_address_of_the_program_has_a_name_and_a_line_and_others_have_none() {
        let address = u64::try_from(looked_for() - start()).expect("an address");
        let mut found = Vec::new();
        let program = Path::new("/proc/self/exe");
        let count = at(program, address, |call| {
            found.push((call.name.to_owned(), call.file.to_owned(), call.line));
        });
        assert_eq!(usize::try_from(count), Ok(found.len()));
        let (name, file, line) = found.last().expect("a call");
        assert!(name.contains("looked_for"), "{found:?}");
        assert!(file.ends_with("program_calls.rs") && *line > 0, "{found:?}");
        assert_eq!(at(program, u64::MAX, |_| {}), 0);
        assert_eq!(at(Path::new("/nowhere"), address, |_| {}), 0);
        assert_eq!(at(Path::new("/proc/self/maps"), address, |_| {}), 0);
    }
}
