//! tokio: a `BufWriter` of the batch's size on one end, and reads into a buffer of 64 KiB on the other.

use super::plan::{Plan, Source, Walk, all_came, ready, wait_for_end};
use super::sockets::{MessageBuffer, size_buffers};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};

const READ_BYTES: usize = 64 * 1024;

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    runtime()?.block_on(async {
        if plan.subject == "tokio-bufwriter-unix" {
            let path = plan.directory.join("tokio.sock");
            let listener = UnixListener::bind(&path)?;
            ready(&path.display().to_string());
            let socket = listener.accept().await?.0;
            size_buffers(&socket)?;
            return receive(plan, socket).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        ready(&listener.local_addr()?.to_string());
        let socket = listener.accept().await?.0;
        size_buffers(&socket)?;
        receive(plan, socket).await
    })?;
    wait_for_end();
    Ok(())
}

async fn receive(plan: &Plan, mut socket: impl AsyncRead + Unpin) -> io::Result<()> {
    let (mut walk, mut buffer) = (Walk::new(plan), MessageBuffer::new(plan, READ_BYTES));
    while walk.next < plan.messages {
        let got = socket.read(buffer.free()).await?;
        buffer.walk_over(got, &mut walk)?;
    }
    all_came(&walk);
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    runtime()?.block_on(async {
        if plan.subject == "tokio-bufwriter-unix" {
            let socket = UnixStream::connect(address).await?;
            size_buffers(&socket)?;
            return write(plan, socket).await;
        }
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        size_buffers(&socket)?;
        write(plan, socket).await
    })
}

async fn write(plan: &Plan, socket: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(plan.batch_bytes, socket);
    let mut source = Source::new(plan);
    for _ in 0..plan.messages {
        out.write_all(source.next_message()).await?;
    }
    out.flush().await?;
    // The receiver reads on until it has all.
    out.shutdown().await
}
