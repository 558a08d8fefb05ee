//! Tests of the model: samples and keys in, rows and effects out.

use super::super::testing::{process, site};
use super::*;
use crate::rates::HISTORY;
use crate::watched_session::Site;

/// A model that has looked twice, a second apart: `(app, pid, records a second)`.
fn watching(processes: &[(&str, u32, u64)]) -> Model {
    let mut model = Model::new(1_000_000_000, ProcessSort::Records, "");
    for (at_ns, times) in [(0, 0), (1_000_000_000, 1)] {
        let processes = processes.iter().map(|(app, pid, records)| {
            let mut process = process(app, *pid);
            process.stats.committed = records * times;
            process
        });
        model.take(Sample {
            at_ns,
            processes: processes.collect(),
            troubles: Vec::new(),
        });
    }
    model
}

fn sites(model: &mut Model, key: &str, sites: Vec<Site>, rules: Vec<Rule>) {
    model.take_sites(Path::new(key), 1_000_000_000, Sites { sites, rules });
}

fn apps(model: &Model) -> Vec<&str> {
    model
        .processes
        .shown()
        .map(|row| row.session.app.as_str())
        .collect()
}

fn mute(selector: Selector) -> Rule {
    Rule {
        made_unix_ns: 1,
        until_unix_ns: 0,
        action: Action::Mute,
        selector,
    }
}

#[test]
fn the_busiest_come_first_and_the_selection_stays_with_its_process() {
    let mut model = watching(&[("a", 1, 10), ("b", 2, 30), ("c", 3, 20)]);
    assert_eq!(apps(&model), ["b", "c", "a"]);
    model.act(Command::Go(Step::Last));
    assert_eq!(model.processes.selected().map(|row| row.session.pid), Some(1));
    model.act(Command::Sort);
    while model.processes.sort != ProcessSort::App {
        model.act(Command::Sort);
    }
    assert_eq!(apps(&model), ["a", "b", "c"]);
    assert_eq!(
        (
            model.processes.place(),
            model.processes.selected().unwrap().session.pid
        ),
        (Some(0), 1)
    );
}

#[test]
fn a_selected_process_that_ends_gives_way_to_the_first() {
    let mut model = watching(&[("a", 1, 10), ("b", 2, 30)]);
    model.act(Command::Go(Step::Last));
    model.take(Sample {
        at_ns: 2_000_000_000,
        processes: vec![process("b", 2)],
        troubles: vec!["an agent does not answer".to_owned()],
    });
    assert_eq!(model.processes.selected().unwrap().session.app, "b");
    assert_eq!(model.troubles, ["an agent does not answer"]);
    model.take(Sample::default());
    assert!(model.processes.selected().is_none() && model.wanted().is_none());
}

#[test]
fn a_filter_is_typed_kept_and_taken_back() {
    let mut model = watching(&[("shop", 1, 10), ("bank", 2, 30)]);
    model.act(Command::AskFilter);
    for letter in "SHo".chars() {
        model.act(Command::Type(letter));
    }
    assert_eq!(apps(&model), ["shop"]);
    assert_eq!(model.processes.selected().unwrap().session.app, "shop");
    model.act(Command::Accept);
    assert_eq!((model.mode.clone(), apps(&model)), (Mode::Watch, vec!["shop"]));
    model.act(Command::AskFilter);
    model.act(Command::Type('x'));
    assert!(apps(&model).is_empty());
    model.act(Command::Cancel);
    assert_eq!(apps(&model), ["shop"]);
    model.act(Command::Back);
    assert_eq!(apps(&model).len(), 2);
}

#[test]
fn the_number_of_a_process_is_a_filter_too() {
    let mut model = Model::new(1, ProcessSort::Pid, "4711");
    model.take(Sample {
        at_ns: 0,
        processes: vec![process("a", 4711), process("b", 12)],
        troubles: Vec::new(),
    });
    assert_eq!(apps(&model), ["a"]);
    assert_eq!(model.processes.rows.len(), 2);
}

#[test]
fn callsites_are_sorted_filtered_and_selected_by_their_numbers() {
    let mut model = watching(&[("shop", 1, 10)]);
    sites(&mut model, "shop-1", vec![site(1, 5), site(2, 50)], Vec::new());
    model.act(Command::OtherPane);
    assert_eq!(
        (model.pane, model.sites.selected().unwrap().site.id),
        (Pane::Sites, 2)
    );
    model.act(Command::Go(Step::By(1)));
    assert_eq!(model.sites.selected().unwrap().site.id, 1);
    sites(
        &mut model,
        "shop-1",
        vec![site(1, 500), site(2, 50), site(3, 1)],
        Vec::new(),
    );
    assert_eq!(
        (model.sites.place(), model.sites.selected().unwrap().site.id),
        (Some(0), 1)
    );
    model.act(Command::AskFilter);
    for letter in "net.rs:43".chars() {
        model.act(Command::Type(letter));
    }
    assert_eq!(
        model.sites.shown().map(|row| row.site.id).collect::<Vec<_>>(),
        [3]
    );
    assert_eq!(model.processes.filter, "");
}

#[test]
fn a_late_look_at_another_process_is_not_taken() {
    let mut model = watching(&[("a", 1, 10), ("b", 2, 30)]);
    sites(&mut model, "a-1", vec![site(1, 5)], Vec::new());
    assert_eq!(model.sites.shown().count(), 0);
    sites(&mut model, "b-2", vec![site(1, 5)], Vec::new());
    assert_eq!(model.sites.shown().count(), 1);
    assert_eq!(model.act(Command::Go(Step::Last)), Effect::Look);
    assert_eq!(model.sites.shown().count(), 0);
}

#[test]
fn levels_are_set_for_the_process_the_module_and_the_callsite() {
    let mut model = watching(&[("shop", 1, 10)]);
    sites(&mut model, "shop-1", vec![site(7, 5)], Vec::new());
    let set = |selector, for_ns| {
        let set = Edit::Set(vec![(Action::Level(Some(3)), selector)], for_ns);
        Effect::Change(PathBuf::from("shop-1"), set)
    };
    model.act(Command::AskLevel);
    assert_eq!(model.act(Command::PickLevel(Some(3))), set(Selector::All, 0));
    model.act(Command::OtherPane);
    model.act(Command::Span);
    model.act(Command::AskLevel);
    let minute_ns = 60_000_000_000;
    assert_eq!(
        model.act(Command::PickLevel(Some(3))),
        set(Selector::Callsite(7), minute_ns)
    );
    model.act(Command::AskLevel);
    model.act(Command::OtherScope);
    let module = Selector::Module("shop::net".to_owned());
    assert_eq!(model.act(Command::PickLevel(Some(3))), set(module, minute_ns));
    assert_eq!(model.mode, Mode::Watch);
}

#[test]
fn a_mute_ends_by_the_same_key() {
    let mut model = watching(&[("shop", 1, 10)]);
    sites(&mut model, "shop-1", vec![site(7, 5)], Vec::new());
    model.act(Command::OtherPane);
    let edit = |effect| match effect {
        Effect::Change(_, edit) => edit,
        other => panic!("{other:?}"),
    };
    let seven = Selector::Callsite(7);
    assert_eq!(
        edit(model.act(Command::Mute)),
        Edit::Set(vec![(Action::Mute, seven.clone())], 0)
    );
    sites(&mut model, "shop-1", vec![site(7, 5)], vec![mute(seven.clone())]);
    assert_eq!(
        edit(model.act(Command::Mute)),
        Edit::Remove(RuleKind::Mute, vec![seven.clone()])
    );
    assert_eq!(edit(model.act(Command::TakeBack)), Edit::Clear(seven));
    model.act(Command::OtherPane);
    assert_eq!(edit(model.act(Command::TakeBack)), Edit::Reset);
}

#[test]
fn a_way_to_sample_that_cannot_be_read_is_asked_again() {
    let mut model = watching(&[("shop", 1, 10)]);
    sites(&mut model, "shop-1", vec![site(7, 5)], Vec::new());
    model.act(Command::OtherPane);
    model.act(Command::AskSample);
    for letter in "10/x".chars() {
        model.act(Command::Type(letter));
    }
    assert_eq!(model.act(Command::Accept), Effect::Nothing);
    assert_eq!(model.mode, Mode::Sample("10/x".to_owned()));
    assert!(matches!(model.message, Some((Tone::Wrong, _))));
    model.act(Command::Erase);
    model.act(Command::Type('s'));
    let set = Edit::Set(vec![(Action::PerSecond(10), Selector::Callsite(7))], 0);
    assert_eq!(
        model.act(Command::Accept),
        Effect::Change(PathBuf::from("shop-1"), set)
    );
}

#[test]
fn a_dead_process_is_not_changed() {
    let mut model = Model::new(1, ProcessSort::Records, "");
    let mut dead = process("shop", 1);
    dead.state = State::Dead;
    model.take(Sample {
        at_ns: 0,
        processes: vec![dead],
        troubles: Vec::new(),
    });
    for command in [
        Command::Mute,
        Command::TakeBack,
        Command::AskLevel,
        Command::AskSample,
    ] {
        assert_eq!(model.act(command.clone()), Effect::Nothing, "{command:?}");
        assert!(
            model.message.is_some() && model.mode == Mode::Watch,
            "{command:?}"
        );
    }
}

#[test]
fn intervals_go_in_steps_and_end_at_their_ends() {
    let mut model = watching(&[]);
    model.act(Command::Slower);
    assert_eq!(model.interval_ns, 2_000_000_000);
    (0..20).for_each(|_| drop(model.act(Command::Faster)));
    assert_eq!(model.interval_ns, INTERVAL_NS_MIN);
    (0..20).for_each(|_| drop(model.act(Command::Slower)));
    assert_eq!(model.interval_ns, 10_000_000_000);
}

#[test]
fn the_past_is_kept_for_as_long_as_the_process_lives() {
    let mut model = watching(&[("shop", 1, 10)]);
    let past = |model: &Model| model.processes.selected().map_or(0, |row| row.past.len());
    assert_eq!(past(&model), 1);
    for second in 2..200 {
        let mut process = process("shop", 1);
        process.stats.committed = second * 10;
        model.take(Sample {
            at_ns: second * 1_000_000_000,
            processes: vec![process],
            troubles: Vec::new(),
        });
    }
    assert_eq!(past(&model), HISTORY);
    model.take(Sample::default());
    assert!(model.processes.selected().is_none());
}
