"""Why a group lags: what is known of it, and the sentences that follow."""
