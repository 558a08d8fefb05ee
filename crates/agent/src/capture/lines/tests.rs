//! Tests of the splitter: against a plain model, for any division of the input into reads.

use super::*;
use logdrive_testkit::Random;

/// A line as it is kept for a comparison.
type Kept = (Vec<u8>, Piece);

fn keep(line: Line<'_>) -> Kept {
    (line.text.to_vec(), line.piece)
}

/// Splits input that comes in reads of the given sizes, and pauses behind those reads that `pauses` says.
fn split(input: &[u8], mut reads: impl FnMut() -> usize, mut pauses: impl FnMut() -> bool) -> Vec<Kept> {
    let mut lines = Lines::new();
    let mut kept = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let space = lines.space();
        assert_eq!(space.len(), READ_BYTES);
        let length = reads().clamp(1, rest.len()).min(space.len());
        let (now, later) = rest.split_at(length);
        space[..length].copy_from_slice(now);
        rest = later;
        lines.filled(length);
        assert_eq!(lines.last_read(), now);
        while let Some(line) = lines.next_line() {
            kept.push(keep(line));
        }
        if pauses() {
            kept.extend(lines.paused().map(keep));
        }
    }
    while let Some(line) = lines.ended() {
        kept.push(keep(line));
    }
    kept
}

/// Lines that have to come out, found without any thought of reads.
fn model(input: &[u8]) -> Vec<Kept> {
    let mut kept = Vec::new();
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let (text, ended) = match line.strip_suffix(b"\n") {
            Some(text) => (text.strip_suffix(b"\r").unwrap_or(text), true),
            None => (line, false),
        };
        let mut rest = text;
        let mut pieces = 0;
        // A line that has not ended is only certainly too long when it is by more than a `\r`.
        let most = PIECE_BYTES_MAX + usize::from(!ended);
        while rest.len() > most {
            let (piece, after) = rest.split_at(whole_chars(rest, PIECE_BYTES_MAX));
            pieces += 1;
            kept.push((piece.to_vec(), Piece::Part(pieces)));
            rest = after;
        }
        while !ended && !rest.is_empty() {
            let (piece, after) = rest.split_at(whole_chars(rest, PIECE_BYTES_MAX));
            pieces += 1;
            kept.push((piece.to_vec(), Piece::Partial(pieces)));
            rest = after;
        }
        match (ended, pieces) {
            (false, _) => {}
            (true, 0) => kept.push((rest.to_vec(), Piece::Whole)),
            (true, _) => kept.push((rest.to_vec(), Piece::Last(pieces + 1))),
        }
    }
    kept
}

/// Bytes of which line breaks and characters of several bytes are a good part, with some very long lines.
fn text(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.index(30) {
        match random.index(10) {
            0 => bytes.extend(b"\r\n"),
            1 => bytes.push(b'\n'),
            2 => bytes.push(b'\r'),
            3 => bytes.extend("é漢😀".as_bytes()),
            4 => bytes.extend([0, 0xff, 0x1b, 0xc3, 0x80]),
            5 => {
                let length = PIECE_BYTES_MAX * (1 + random.index(2)) - 3 + random.index(6);
                let fill = ["x", "é", "漢", "😀"][random.index(4)];
                bytes.extend(fill.bytes().cycle().take(length));
            }
            _ => bytes.extend(b"some words of a line".iter().take(random.index(20))),
        }
    }
    bytes
}

#[test]
fn any_division_into_reads_gives_the_same_lines() {
    for seed in 1..200 {
        let mut random = Random::new(seed);
        let input = text(&mut random);
        let expected = model(&input);
        for most in [1, 2, 7, 4096, READ_BYTES] {
            // Byte for byte is slow, and says no more for long input.
            if most < 7 && input.len() > 100_000 {
                continue;
            }
            let found = split(&input, || 1 + random.index(most), || false);
            assert!(found == expected, "seed {seed}, reads of up to {most}");
        }
    }
}

#[test]
fn pauses_lose_nothing_and_never_divide_a_character() {
    for seed in 1..200 {
        let mut random = Random::new(seed);
        let mut input = text(&mut random);
        input.push(b'\n');
        let mut other = Random::new(seed + 1_000);
        let found = split(&input, || 1 + random.index(5_000), || other.index(3) == 0);
        let mut joined = Vec::new();
        let mut open = false;
        for (text, piece) in &found {
            let starts = matches!(piece, Piece::Whole | Piece::Part(1) | Piece::Partial(1));
            if starts && open {
                joined.push(b'\n');
            }
            joined.extend(text);
            open = !matches!(piece, Piece::Whole | Piece::Last(_));
            if !open {
                joined.push(b'\n');
            }
        }
        if open {
            joined.push(b'\n');
        }
        let expected: Vec<u8> = input
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                [text.strip_suffix(b"\r").unwrap_or(text), b"\n"].concat()
            })
            .collect();
        assert!(joined == expected, "seed {seed}");
        for pair in found.windows(2) {
            let ends_inside = unfinished_char(&pair[0].0) > 0;
            let goes_on_inside = pair[1].0.first().is_some_and(|byte| continues_char(*byte));
            let goes_on = !matches!(pair[0].1, Piece::Whole | Piece::Last(_));
            assert!(
                !(goes_on && ends_inside && goes_on_inside),
                "seed {seed}: a character was divided"
            );
        }
    }
}

#[test]
fn a_prompt_comes_at_a_pause_and_its_answer_is_joined() {
    let mut lines = Lines::new();
    let mut give = |bytes: &[u8]| {
        lines.space()[..bytes.len()].copy_from_slice(bytes);
        lines.filled(bytes.len());
        let mut kept: Vec<Kept> = Vec::new();
        while let Some(line) = lines.next_line() {
            kept.push(keep(line));
        }
        kept.extend(lines.paused().map(keep));
        kept
    };
    assert_eq!(give(b"Name: "), [(b"Name: ".to_vec(), Piece::Partial(1))]);
    assert_eq!(
        give(b"Bob\nAge: "),
        [
            (b"Bob".to_vec(), Piece::Last(2)),
            (b"Age: ".to_vec(), Piece::Partial(1))
        ]
    );
    assert_eq!(give(b"\r"), [], "it may be the front of a line break");
    assert_eq!(give(b"\nnext\n"), [(b"next".to_vec(), Piece::Whole)]);
    assert_eq!(give(b"\n"), [(Vec::new(), Piece::Whole)]);
}

#[test]
fn the_front_of_a_character_is_held_back() {
    for (text, held) in [
        (&b"abc"[..], 0),
        ("é".as_bytes(), 0),
        (b"a\xc3", 1),
        (b"\xe6\xbc", 2),
        (b"\xf0\x9f\x98", 3),
        (b"\x9f\x98\x80", 0),
        (b"\xff", 0),
        (b"", 0),
    ] {
        assert_eq!(unfinished_char(text), held, "{text:?}");
    }
}

#[test]
fn a_line_of_exactly_a_piece_is_whole() {
    for end in ["\n", "\r\n"] {
        for (length, count) in [(PIECE_BYTES_MAX, 1), (PIECE_BYTES_MAX + 1, 2)] {
            let input = format!("{}{end}", "x".repeat(length));
            let found = split(input.as_bytes(), || 1000, || false);
            assert_eq!(found.len(), count, "{length} {end:?}");
        }
    }
}

#[test]
fn a_line_knows_whether_it_has_an_escape_byte() {
    let mut lines = Lines::new();
    let bytes = b"plain\n\x1b[1mbold\x1b[m\nplain\nends in \x1b";
    lines.space()[..bytes.len()].copy_from_slice(bytes);
    lines.filled(bytes.len());
    let found: Vec<bool> = std::iter::from_fn(|| lines.next_line().map(|line| line.has_escape)).collect();
    assert_eq!(found, [false, true, false]);
    assert_eq!(lines.ended().map(|line| line.has_escape), Some(true));
}
