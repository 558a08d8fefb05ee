//! Routes of a collector: which records go to which of its outputs, by application, host and level.

use glob::Pattern;
use logdrive_wire::Level;
use std::sync::Arc;

/// A route, as those of an agent: they are tried in their order, and the first that matches decides, unless it goes on. All
/// conditions have to hold.
///
/// ```
/// use logdrive_collector::CollectRoute;
/// use logdrive_wire::Level;
/// let mut route = CollectRoute::to_all(2);
/// route.level = Level::Error;
/// assert!(route.matches("shop", "alpha", Level::Fatal) && !route.matches("shop", "alpha", Level::Info));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CollectRoute {
    /// Pattern for names of applications, in which `*` is any text; `None` for any.
    pub app: Option<Pattern>,
    /// Pattern for names of hosts.
    pub host: Option<Pattern>,
    /// Records of this level and above. A line that says no level counts as info.
    pub level: Level,
    /// Outputs that they go to, by their places.
    pub outputs: Vec<usize>,
    /// The routes behind are tried, too.
    pub goes_on: bool,
}

impl CollectRoute {
    /// The route of all records to so many outputs.
    pub fn to_all(outputs: usize) -> Self {
        Self {
            app: None,
            host: None,
            level: Level::Trace,
            outputs: (0..outputs).collect(),
            goes_on: false,
        }
    }

    /// Makes a pattern in which `*` is any text, `?` any character, and all else itself; `None` for any name.
    pub fn pattern(text: &str) -> Option<Pattern> {
        let part = |character: char| match character {
            '*' | '?' => character.to_string(),
            other => Pattern::escape(&other.to_string()),
        };
        let escaped: String = text.chars().map(part).collect();
        Pattern::new(&escaped).ok().filter(|_| text != "*")
    }

    /// Returns whether each record matches.
    pub(crate) fn takes_all(&self) -> bool {
        self.app.is_none() && self.host.is_none() && self.level == Level::Trace && !self.outputs.is_empty()
    }

    /// Returns whether a record matches.
    pub fn matches(&self, app: &str, host: &str, level: Level) -> bool {
        let fits = |pattern: &Option<Pattern>, name| pattern.as_ref().is_none_or(|own| own.matches(name));
        level >= self.level && fits(&self.app, app) && fits(&self.host, host)
    }
}

/// The records of one output.
#[derive(Debug, Clone)]
pub(crate) struct RecordFilter {
    routes: Arc<[CollectRoute]>,
    output: usize,
}

impl RecordFilter {
    pub(crate) fn new(routes: Arc<[CollectRoute]>, output: usize) -> Self {
        Self { routes, output }
    }

    /// Returns whether a record goes to the output.
    pub(crate) fn wants(&self, app: &str, host: &str, level: Level) -> bool {
        let matching = self.routes.iter().filter(|route| route.matches(app, host, level));
        for route in matching {
            if route.outputs.contains(&self.output) {
                return true;
            }
            if !route.goes_on {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_route_that_matches_decides_unless_it_goes_on() {
        let pattern = CollectRoute::pattern;
        assert!(pattern("*").is_none() && pattern("a[b]*").is_some_and(|own| own.matches("a[b]c")));
        let mut errors = CollectRoute::to_all(0);
        (errors.level, errors.outputs, errors.goes_on) = (Level::Error, vec![0], true);
        let mut shop = CollectRoute::to_all(0);
        (shop.app, shop.host, shop.outputs) = (pattern("shop-*"), pattern("alpha"), vec![1]);
        let mut rest = CollectRoute::to_all(0);
        rest.outputs = vec![2];
        let routes: Arc<[CollectRoute]> = [errors, shop, rest].into();
        let of = |app, host, level| -> Vec<usize> {
            let wants =
                |output: &usize| RecordFilter::new(Arc::clone(&routes), *output).wants(app, host, level);
            (0..3).filter(wants).collect()
        };
        assert_eq!(of("shop-a", "alpha", Level::Info), [1]);
        assert_eq!(of("shop-a", "alpha", Level::Fatal), [0, 1]);
        assert_eq!(of("shop-a", "beta", Level::Error), [0, 2]);
        assert_eq!(of("mail", "alpha", Level::Trace), [2]);
    }
}
