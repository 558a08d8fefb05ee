//! `logdrive export`: what a query gives, as a file of columns.
//!
//! The sources are read twice: [`schema`] finds the columns, then [`batch`] fills them and arrow-rs writes them.

pub(crate) mod args;
mod batch;
mod schema;

use crate::error::CliError;
use crate::limits::{EXPORT_BATCH_BYTES, EXPORT_BATCH_ROWS, EXPORT_GROUP_ROWS};
use crate::output::safe;
use crate::paint::{ColorChoice, Style};
use crate::{output::titled_note, query};
use args::ExportArgs;
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::Schema;
use batch::Batch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use schema::Columns;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let rows = args.rows();
    if rows.sources.iter().any(|source| source.as_os_str() == "-") {
        return Err(CliError::ReadTwice);
    }
    let mut columns = Columns::default();
    let found = query::each_row(&rows, color, &mut |row| {
        columns.add(&row);
        Ok(())
    })?;
    if !found.is_whole() {
        return Ok(found.status());
    }
    let schema = Arc::new(columns.schema());
    let mut out = ExportFile::create(args, &schema)?;
    let mut batch = Batch::new(schema);
    let mut count = 0u64;
    let written = query::each_row(&rows, color, &mut |row| {
        batch.push(&columns, &row);
        count += 1;
        let (rows, bytes) = batch.size();
        match rows >= EXPORT_BATCH_ROWS || bytes >= EXPORT_BATCH_BYTES {
            true => out.write(&mut batch),
            false => Ok(()),
        }
    })?;
    out.write(&mut batch)?;
    out.finish()?;
    if batch.left_out > 0 {
        let text = format!(
            "{} values are left out: they have no column, or were logged while the file was written",
            batch.left_out
        );
        titled_note(color.for_stderr(), Style::Warning, "note", text);
    }
    print_hint(&out.path, count)?;
    Ok(written.status())
}

/// Prints a line that opens the file in DuckDB.
fn print_hint(path: &Path, count: u64) -> Result<(), CliError> {
    let name = safe(&path.display().to_string()).replace('\'', "''");
    let rows = if count == 1 { "row" } else { "rows" };
    let mut out = io::stdout().lock();
    let written = match path.extension().is_some_and(|end| end == "parquet") {
        true => writeln!(
            out,
            "{count} {rows}; duckdb -c \"SELECT * FROM '{name}' LIMIT 10\""
        ),
        false => writeln!(
            out,
            "{count} {rows}; python3 -c \"import duckdb, pyarrow.feather as f; t = f.read_table('{name}'); print(duckdb.sql('SELECT * FROM t LIMIT 10'))\""
        ),
    };
    written.map_err(|cause| CliError::Output { cause })
}

/// A file that is being written.
struct ExportFile {
    path: PathBuf,
    writer: Writer,
}

enum Writer {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Arrow(Box<FileWriter<BufWriter<File>>>),
}

impl ExportFile {
    fn create(args: &ExportArgs, schema: &Arc<Schema>) -> Result<Self, CliError> {
        let (path, is_parquet) = match (&args.parquet, &args.arrow) {
            (Some(path), _) => (path.clone(), true),
            (None, path) => (path.clone().unwrap_or_default(), false),
        };
        let file = File::create_new(&path).map_err(failed(&path))?;
        let file = BufWriter::new(file);
        let writer = match is_parquet {
            true => {
                let level = ZstdLevel::try_new(3).map_err(io::Error::other);
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level.map_err(failed(&path))?))
                    .set_max_row_group_row_count(Some(EXPORT_GROUP_ROWS))
                    .build();
                let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(io::Error::other).map_err(failed(&path))?))
            }
            false => {
                let writer = FileWriter::try_new(file, schema);
                Writer::Arrow(Box::new(writer.map_err(io::Error::other).map_err(failed(&path))?))
            }
        };
        Ok(Self { path, writer })
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), CliError> {
        if batch.size().0 == 0 {
            return Ok(());
        }
        let batch = batch.take().map_err(io::Error::other);
        let batch: RecordBatch = batch.map_err(failed(&self.path))?;
        let written = match &mut self.writer {
            Writer::Parquet(writer) => writer.write(&batch).map_err(io::Error::other),
            Writer::Arrow(writer) => writer.write(&batch).map_err(io::Error::other),
        };
        written.map_err(failed(&self.path))
    }

    fn finish(&mut self) -> Result<(), CliError> {
        let written = match &mut self.writer {
            Writer::Parquet(writer) => writer.finish().map(drop).map_err(io::Error::other),
            Writer::Arrow(writer) => writer.finish().map_err(io::Error::other),
        };
        written.map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CliError {
    let path = path.to_owned();
    move |cause| CliError::Write {
        path: path.clone(),
        cause,
    }
}
