//! `payonce sandbox`

mod acquirer;
mod methods;

use crate::failure::Failure;
use clap::Subcommand;

/// Run what stands in for the outside world
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Acquirer(Box<acquirer::Args>),
    /// List the magic payment methods, and what each makes the acquirer do
    Methods,
}

pub async fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Acquirer(args) => acquirer::run(*args).await,
        What::Methods => {
            methods::list();
            Ok(())
        }
    }
}
