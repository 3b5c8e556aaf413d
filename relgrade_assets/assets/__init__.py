"""The assets: each reads its inputs, calls one method, and says what there is to see. No rules are decided here."""
