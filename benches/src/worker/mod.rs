use anyhow::Result;
pub async fn run(_order: &str) -> Result<()> { anyhow::bail!("later") }
