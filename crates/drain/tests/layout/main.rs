//! Layouts from outside: exact lines, equality with `std::fmt`, and hostile callsites and payloads.

mod formats;
mod hostile;
mod records;
mod styles;
