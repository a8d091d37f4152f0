// The product's mark: two copies, tied together.
export function Mark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="ls-mark">
      <rect width="32" height="32" rx="8" className="ls-mark-ground" />
      <g fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round" strokeLinejoin="round">
        <rect x="6" y="8" width="7" height="16" rx="2" />
        <rect x="19" y="8" width="7" height="16" rx="2" />
        <path d="M13 13h6M13 19h6" />
      </g>
    </svg>
  );
}
