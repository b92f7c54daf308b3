//! Compresses the files of `dist/` and writes the table that `src/files.rs` includes, so that the binary has each file
//! once, in the form in which it is sent.

use flate2::{Compression, GzBuilder};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=dist");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut paths: Vec<PathBuf> =
        fs::read_dir("dist")?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    let mut table = String::from("&[\n");
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is not UTF-8")?;
        let plain = fs::read(&path)?;
        let compressed = out.join(format!("{name}.gz"));
        // The header has neither name nor time: equal files give equal bytes.
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
        encoder.write_all(&plain)?;
        fs::write(&compressed, encoder.finish()?)?;
        let mut hasher = DefaultHasher::new();
        plain.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        table.push_str(&format!(
            "    File {{ name: {name:?}, content_type: {:?}, etag: {etag:?}, bytes: {}, gzip: include_bytes!({:?}) }},\n",
            content_type(&path)?,
            plain.len(),
            compressed.display().to_string(),
        ));
    }
    table.push(']');
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

fn content_type(path: &Path) -> Result<&'static str, Box<dyn Error>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        Some("txt") => Ok("text/plain; charset=utf-8"),
        _ => Err(format!("{}: no content type for this file", path.display()).into()),
    }
}
