//! The domains that mail may go to, where an operator names some: for mails, and for the invitations that a calendar
//! server sends.

use helve::ToolError;

use crate::Office;
use crate::text::Address;

/// Refuses the first address that is not in a domain that an operator allows. What is no address is in none.
pub(super) fn check_domains<'a>(
    office: &Office,
    addresses: impl IntoIterator<Item = &'a str>,
) -> Result<(), ToolError> {
    let allowed = &office.settings().recipient_domains;
    if allowed.is_empty() {
        return Ok(());
    }
    let allowed: Vec<Address> =
        allowed.iter().filter_map(|domain| Address::new(&format!("x@{domain}")).ok()).collect();
    let may = |text: &str| {
        let address = Address::new(text);
        address.is_ok_and(|address| allowed.iter().any(|one| one.domain() == address.domain()))
    };
    match addresses.into_iter().find(|address| !may(address)) {
        None => Ok(()),
        Some(address) => {
            let domains = allowed.iter().map(Address::domain).collect::<Vec<_>>().join(", ");
            let address = helve_core::hidden::one_line(address, 254);
            let message = format!("mail may go to {domains} only, and not to `{address}`");
            Err(ToolError::unrecoverable("RECIPIENT_NOT_ALLOWED", message)
                .suggest("tell the user; an operator set this, and only an operator can change it")
                .nothing_done())
        }
    }
}
